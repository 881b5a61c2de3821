//! Names that read like something else.

use super::{Controller, USERS};
use catena_client::Kind;
use serde_json::json;

/// People may ask for a thing by the beginning of its identity; a document means what it names.
#[test]
fn a_name_like_the_beginning_of_an_identity_is_a_name_in_documents() {
    let controller = Controller::with_ports("none");
    controller.tell(0, &["apply", "-f", &controller.file("users.yaml", USERS)]);
    let client = controller.client();
    let id =
        |kind, name: &str| client.named(kind, name).unwrap()["id"].as_str().unwrap().to_owned();
    let chain = id(Kind::PortChain, "gate");
    let group = id(Kind::PortPairGroup, "v1");
    let slice = client.slice("members").unwrap().id.to_string();
    let like = format!(
        "
chains:
  - {{name: '{0}', source: S, destination: D, classify: udp dport 7009, through: [v3]}}
functions:
  - {{name: '{1}', template: {{runs: {{external: registry/fw:1}}}}}}
slices:
  - {{name: '{2}', chain: '{0}', vni: 9}}
",
        &chain[..6],
        &group[..6],
        &slice[..6]
    );
    let file = controller.file("like.yaml", &like);
    // Where none has the name, nothing is taken for it.
    for words in [["apply", "-f", &file, "--undeploy"], ["diff", "-f", &file, "--undeploy"]] {
        let count = controller.count(Kind::PortChain);
        controller.catena(&words);
        assert_eq!((controller.count(Kind::PortChain), count), (2, 2), "{words:?}");
    }
    controller.tell(0, &["apply", "-f", &file]);
    assert_eq!((controller.count(Kind::PortChain), client.slices(None).unwrap().len()), (3, 3));
    assert_eq!(client.chain("gate").unwrap().functions, ["v1"]);
    assert_eq!(client.slice("members").unwrap().slice.chain, "gate");
    let group = client.named(Kind::PortPairGroup, &group[..6]).unwrap();
    assert_eq!(group["port_pairs"], json!([]));
    assert_eq!(controller.tell(0, &["diff", "-f", &file]), "");
    controller.tell(0, &["apply", "-f", &file, "--undeploy"]);
    assert_eq!((controller.count(Kind::PortChain), client.slices(None).unwrap().len()), (2, 2));
    // People still may.
    assert!(controller.tell(0, &["chain", "show", &chain[..6]]).contains("gate"));
}
