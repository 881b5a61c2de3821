//! The verbs that stay: `catena watch` and `catena top`, read as a person reads them.

use crate::house::{House, in_shared_house};
use crate::patience::wait_for;
use crate::traffic::{Family, address, send_and_count};
use catena_model::resource::Encapsulation;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

const PORT: u16 = 5_006;

fn document() -> Value {
    json!({
        "name": "seen", "source": "S", "destination": "D",
        "match_fields": {"protocol": "udp", "destination_port": PORT},
        "chain": [{"name": "v1", "direction": "in"}, {"name": "v7", "direction": "out"}],
    })
}

/// A verb that goes on, and what it has said so far.
struct Staying {
    child: Child,
    said: Arc<Mutex<String>>,
}

impl Staying {
    fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the verb starts");
        let mut output = child.stdout.take().expect("its output");
        let said = Arc::new(Mutex::new(String::new()));
        let heard = Arc::clone(&said);
        std::thread::spawn(move || {
            let mut bytes = [0; 4_096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
                heard.lock().expect("a listener").push_str(&text);
            }
        });
        Self { child, said }
    }

    /// Waits until it has said a word, and forgets what it said up to there.
    fn hear(&self, word: &str) {
        wait_for(word, || {
            let mut said = self.said.lock().expect("a listener");
            let Some(place) = said.find(word) else { return Err(said.clone()) };
            said.drain(..place + word.len());
            Ok(())
        });
    }

    fn press(&mut self, keys: &str) {
        let input = self.child.stdin.as_mut().expect("its keyboard");
        input.write_all(keys.as_bytes()).and_then(|()| input.flush()).expect("keys");
    }
}

impl Drop for Staying {
    fn drop(&mut self) {
        // One that has ended already needs no more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn catena(house: &House) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_catena"));
    command.args(["--url", house.client.base()]);
    command
}

#[test]
fn who_watches_reads_what_happens_to_chains_and_nodes() {
    in_shared_house(|house| {
        let watch = Staying::start(catena(house).arg("watch"));
        for host in ["host1", "host2", "host3", "host4"] {
            watch.hear(&format!("node {host}   connected, program "));
        }
        house.deploy(document());
        watch.hear("chain seen   active, path ");
        house.tell(&["chain", "undeploy", "seen"]);
        watch.hear("chain seen   gone");
    });
}

#[test]
fn the_live_view_shows_a_chain_and_its_hops_and_obeys_the_keyboard() {
    in_shared_house(|house| {
        house.deploy(document());
        let to = SocketAddr::new(address("D", Family::V4), PORT);
        send_and_count(&house.node("S"), &house.node("D"), to, 50);
        // `script` gives it a terminal.
        let words = format!(
            "stty cols 130 rows 20; exec {} --url {} top --interval 0.2",
            env!("CARGO_BIN_EXE_catena"),
            house.client.base()
        );
        let mut script = Command::new("script");
        script.args(["-qefc", &words, "/dev/null"]).env("TERM", "xterm").env("SHELL", "/bin/sh");
        let mut top = Staying::start(&mut script);
        top.hear("chains 1 of 1 active");
        top.hear("seen");
        top.press("\r");
        top.hear("entered 50   finished 50   dropped 0");
        top.press("2");
        top.hear("host4");
        top.press("q");
        let status = wait_for("the end of the view", || {
            let ended = top.child.try_wait().map_err(|error| error.to_string())?;
            ended.ok_or_else(|| "it goes on".to_owned())
        });
        assert!(status.success(), "{status}");
    });
}

#[test]
fn a_change_is_told_before_it_is_made_and_a_changed_file_updates_its_chain() {
    in_shared_house(|house| {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("seen.json");
        let path = file.display().to_string();
        let write = |document: &Value| std::fs::write(&file, document.to_string()).expect("a file");
        let plan = |code: i32| {
            let output = house.catena(&["plan", "-f", &path]);
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(output.status.code(), Some(code), "{said}{output:?}");
            said
        };
        write(&document());
        let before = house.declared();
        let told = plan(3);
        assert!(told.contains("chain seen new") && told.contains("+ v1 ─► v7"), "{told}");
        assert!(told.contains("disruption   none"), "{told}");
        // The chain, its classifier, and two functions of an instance each.
        let counted = "changes: 6 create, 0 update, 0 delete. Apply with: catena apply -f ";
        assert!(told.contains(counted), "{told}");
        assert_eq!(house.declared(), before, "a plan declares nothing");
        house.tell(&["chain", "deploy", &path]);
        assert!(plan(0).contains("no changes"));

        let mut changed = document();
        changed["chain"] = json!([
            {"name": "v2", "direction": "in"}, {"name": "v4", "direction": "same"},
            {"name": "v7", "direction": "out"},
        ]);
        changed["match_fields"]["destination_port"] = json!(PORT + 1);
        write(&changed);
        let told = plan(3);
        assert!(told.contains("~ v2 ─► v4 ─► v7   was: v1 ─► v7"), "{told}");
        assert!(told.contains("+ classifier seen") && told.contains("- classifier seen"), "{told}");
        assert!(told.contains("disruption   none: 1 path swapped make-before-break"), "{told}");
        let said = house.tell(&["chain", "deploy", &path]);
        assert!(said.contains("chain seen   active, path "), "{said}");
        assert!(plan(0).contains("no changes"));
        let to = SocketAddr::new(address("D", Family::V4), PORT + 1);
        send_and_count(&house.node("S"), &house.node("D"), to, 20);
        let report = house.client.chain("seen").expect("a report");
        assert_eq!(report.functions, ["v2", "v4", "v7"]);

        changed["encapsulation"] = json!("nsh");
        write(&changed);
        house.tell(&["chain", "deploy", &path]);
        send_and_count(&house.node("S"), &house.node("D"), to, 20);
        let report = house.client.chain("seen").expect("a report");
        assert_eq!(report.encapsulation, Encapsulation::Nsh);
        changed["symmetric"] = json!(true);
        write(&changed);
        let refused = house.refuse(&["chain", "deploy", &path]);
        assert!(refused.contains("symmetry of chain 'seen' cannot be changed"), "{refused}");
        changed["symmetric"] = json!(false);
        write(&changed);
        house.tell(&["chain", "undeploy", &path]);
        assert_eq!(house.declared(), before, "nothing of either version stays");
    });
}

#[test]
fn the_live_view_without_a_terminal_says_what_to_use_instead() {
    in_shared_house(|house| {
        let output = catena(house).arg("top").stdin(Stdio::null()).output().expect("the verb runs");
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("needs a terminal") && said.contains("catena status"), "{said}");
    });
}
