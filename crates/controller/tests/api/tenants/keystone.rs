//! Tokens of the real Keystone: two projects that see nothing of each other.

use crate::support::tokens::{Caller, start};
use crate::support::{Controller, eventually, http};
use catena_controller::{Auth, KeystoneConfig, KeystoneService};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const PASSWORD: &str = "a password of no value";

/// A Keystone with its database in a folder of its own; ended with it.
struct Keystone {
    scripts: PathBuf,
    folder: tempfile::TempDir,
    url: String,
    /// A token of its administrator.
    admin: String,
}

impl Keystone {
    /// None: it cannot be installed here, and that has been said.
    fn start() -> Option<Self> {
        let scripts =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/openstack/peer");
        let folder = tempfile::tempdir().unwrap();
        let script = scripts.join("keystone-up");
        let output = Command::new(&script).arg(folder.path()).arg("0").output().unwrap();
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            let why = why.trim().lines().last().unwrap_or("it says nothing").to_owned();
            println!("SKIPPED: real Keystone: {why}");
            return None;
        }
        let text = String::from_utf8(output.stdout).unwrap();
        let settings: BTreeMap<&str, &str> =
            text.lines().filter_map(|line| line.split_once('=')).collect();
        let mut keystone =
            Self { scripts, folder, url: settings["url"].to_owned(), admin: String::new() };
        let (user, password) = (settings["OS_USERNAME"], settings["OS_PASSWORD"]);
        keystone.admin = keystone.token(user, password, Some("admin"));
        Some(keystone)
    }

    fn token(&self, user: &str, password: &str, project: Option<&str>) -> String {
        let domain = json!({"id": "default"});
        let user = json!({"name": user, "domain": domain, "password": password});
        let identity = json!({"methods": ["password"], "password": {"user": user}});
        let scope = match project {
            Some(project) => json!({"project": {"name": project, "domain": domain}}),
            None => json!("unscoped"),
        };
        let body = json!({"auth": {"identity": identity, "scope": scope}});
        let answer = http().post(format!("{}/auth/tokens", self.url)).json(&body).send().unwrap();
        assert_eq!(answer.status(), 201, "{user}");
        answer.headers()["x-subject-token"].to_str().unwrap().to_owned()
    }

    fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let method = method.parse().unwrap();
        let mut request = http().request(method, format!("{}/{path}", self.url));
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.header("X-Auth-Token", &self.admin).send().unwrap();
        assert!(answer.status().is_success(), "{path}: {answer:?}");
        answer.json().unwrap_or(Value::Null)
    }

    fn project(&self, name: &str) -> String {
        let made = self.call("POST", "projects", Some(&json!({"project": {"name": name}})));
        made["project"]["id"].as_str().unwrap().to_owned()
    }

    /// A user with a role in a project.
    fn user(&self, name: &str, project: &str, role: &str) {
        let user = json!({"user": {"name": name, "password": PASSWORD}});
        let user = self.call("POST", "users", Some(&user));
        let roles = self.call("GET", &format!("roles?name={role}"), None);
        let (user, role) = (&user["user"]["id"], &roles["roles"][0]["id"]);
        let (user, role) = (user.as_str().unwrap(), role.as_str().unwrap());
        self.call("PUT", &format!("projects/{project}/users/{user}/roles/{role}"), None);
    }

    fn stop(&self) {
        let script = self.scripts.join("keystone-down");
        let ended = Command::new(script).arg(self.folder.path()).output();
        assert!(ended.unwrap().status.success());
    }
}

impl Drop for Keystone {
    fn drop(&mut self) {
        let _ = Command::new(self.scripts.join("keystone-down")).arg(self.folder.path()).output();
    }
}

fn bearer<'c>(controller: &'c Controller, token: &str) -> Caller<'c> {
    Caller { controller, token: Some(token.into()) }
}

/// A chain of one function, with all that it needs; its id.
fn chain(caller: &Caller<'_>, name: &str) -> String {
    let network = caller.create("/v2.0/networks", &json!({"name": name}));
    let port = |device: &str| {
        caller.create("/v2.0/ports", &json!({"network_id": network, "device_id": device}))
    };
    let (source, port) = (port("source"), port("function"));
    let pair = caller.create("/v2.0/sfc/port_pairs", &json!({"ingress": port, "egress": port}));
    let group = caller.create("/v2.0/sfc/port_pair_groups", &json!({"port_pairs": [pair]}));
    // Both projects take the same flows: neither can know of the other's.
    let classifier = json!({"protocol": "tcp", "destination_port_range_min": 80,
                            "destination_port_range_max": 80, "logical_source_port": source});
    let classifier = caller.create("/v2.0/sfc/flow_classifiers", &classifier);
    let chain =
        json!({"name": name, "port_pair_groups": [group], "flow_classifiers": [classifier]});
    caller.create("/v2.0/sfc/port_chains", &chain)
}

#[test]
fn projects_of_a_real_keystone_have_chains_of_their_own_and_see_no_others() {
    let Some(keystone) = Keystone::start() else { return };
    let (service, red, blue) =
        (keystone.project("service"), keystone.project("red"), keystone.project("blue"));
    for (name, project, role) in [
        ("catena", &service, "service"),
        ("ruth", &red, "member"),
        ("rita", &red, "reader"),
        ("bob", &blue, "member"),
    ] {
        keystone.user(name, project, role);
    }
    let credentials = KeystoneService::Password {
        user: "catena".into(),
        password: PASSWORD.into(),
        project: "service".into(),
        domain: "Default".into(),
    };
    let mut config = KeystoneConfig::new(&keystone.url, credentials);
    config.remember = Duration::from_secs(1);
    let data = tempfile::tempdir().unwrap();
    let controller = start(data.path(), Auth::Keystone(Box::new(config)));
    let login = |user: &str, project: &str| {
        bearer(&controller, &keystone.token(user, PASSWORD, Some(project)))
    };
    let (ruth, rita, bob) = (login("ruth", "red"), login("rita", "red"), login("bob", "blue"));
    let (of_red, of_blue) = (chain(&ruth, "red-chain"), chain(&bob, "blue-chain"));
    for (caller, project, own, foreign) in [
        (&ruth, &red, &of_red, &of_blue),
        (&rita, &red, &of_red, &of_blue),
        (&bob, &blue, &of_blue, &of_red),
    ] {
        let list = caller.call("GET", "/v2.0/sfc/port_chains", None).json();
        let chains = list["port_chains"].as_array().unwrap();
        assert_eq!((chains.len(), &chains[0]["id"]), (1, &json!(own)), "{list}");
        assert_eq!(&chains[0]["project_id"], project.as_str());
        for path in ["/v2.0/sfc/port_chains", "/v1/chains"] {
            assert_eq!(caller.call("GET", &format!("{path}/{own}"), None).status, 200, "{path}");
            assert_eq!(
                caller.call("GET", &format!("{path}/{foreign}"), None).status,
                404,
                "{path}"
            );
        }
        let path = format!("/v2.0/sfc/port_chains/{foreign}");
        let change = json!({"port_chain": {"name": "stolen"}});
        assert_eq!(caller.call("PUT", &path, Some(&change)).status, 404);
        assert_eq!(caller.call("DELETE", &path, None).status, 404);
    }
    let change = json!({"port_chain": {"name": "x"}});
    let refused = rita.call("PUT", &format!("/v2.0/sfc/port_chains/{of_red}"), Some(&change));
    assert_eq!((refused.status, refused.kind().as_str()), (403, "PolicyNotAuthorized"));
    // The administrator of both sees both, and so does ours.
    for caller in [bearer(&controller, &keystone.admin), Caller::admin(&controller)] {
        let list = caller.call("GET", "/v2.0/sfc/port_chains", None);
        assert!(list.text.contains(&of_red) && list.text.contains(&of_blue), "{list:?}");
    }
    bad_tokens(&keystone, &controller);
    keystone.stop();
    let down = bearer(&controller, "a-token-that-nobody-knows").call("GET", "/v2.0/networks", None);
    assert_eq!(down.status, 503, "{down:?}");
    assert!(down.text.contains("does not answer"), "{down:?}");
}

/// Tokens that are none, for no project, or revoked.
fn bad_tokens(keystone: &Keystone, controller: &Controller) {
    let unscoped = keystone.token("ruth", PASSWORD, None);
    for token in ["nonsense", &unscoped] {
        let answer = bearer(controller, token).call("GET", "/v2.0/networks", None);
        assert_eq!(answer.status, 401, "{answer:?}");
        let challenge = answer.headers["www-authenticate"].to_str().unwrap();
        assert_eq!(challenge, format!("Keystone uri=\"{}\"", keystone.url));
    }
    let token = keystone.token("ruth", PASSWORD, Some("red"));
    let caller = bearer(controller, &token);
    assert_eq!(caller.call("GET", "/v2.0/networks", None).status, 200);
    let revoke = http().delete(format!("{}/auth/tokens", keystone.url));
    let revoke = revoke.header("X-Auth-Token", &keystone.admin).header("X-Subject-Token", &token);
    assert_eq!(revoke.send().unwrap().status(), 204);
    eventually("the end of a revoked token", || {
        (caller.call("GET", "/v2.0/networks", None).status == 401).then_some(())
    });
}
