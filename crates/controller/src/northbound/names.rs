//! Names in place of identities, where a sentence tells people of what they have named. Knows what
//! looks like an identity and whose name whoever asks may read; refuses to know what the sentence says.

use crate::auth::Identity;
use catena_model::id::{
    ChainId, FunctionId, GraphId, InstanceId, NetworkId, PortId, RuleId, SliceId, SubnetId,
};
use catena_model::resource::Label;
use catena_plan::Intent;
use std::borrow::Cow;
use uuid::Uuid;

/// Asks for names in the refusals of the networking-sfc dialect, whose clients know identities there.
pub(super) const HEADER: &str = "catena-names";
/// Characters of a written identity.
const ID_CHARS: usize = 36;

/// A sentence in which everything that has a name is called by it; with its identity behind where
/// others of its kind are called the same.
pub(super) fn in_sentence<'s>(
    sentence: &'s str,
    intent: &Intent,
    identity: &Identity,
) -> Cow<'s, str> {
    let mut told = Cow::Borrowed(sentence);
    let mut place = 0;
    while let Some(word) = told.get(place..).map(|rest| rest.get(..ID_CHARS)) {
        let Some(id) = word.and_then(|word| Uuid::try_parse(word).ok()) else {
            place += told[place..].chars().next().map_or(1, char::len_utf8);
            if place >= told.len() {
                break;
            }
            continue;
        };
        let name = name(intent, identity, id).filter(|_| is_alone(&told, place));
        let end = place + ID_CHARS;
        let Some(name) = name else {
            place = end;
            continue;
        };
        let is_quoted = told[..place].ends_with('\'') && told[end..].starts_with('\'');
        let called = if is_quoted { name.bare() } else { name.quoted() };
        told = Cow::Owned(format!("{}{called}{}", &told[..place], &told[end..]));
        place += called.len();
    }
    told
}

/// Is an identity a word of its own?
fn is_alone(text: &str, place: usize) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let before = text[..place].chars().next_back();
    let behind = text[place + ID_CHARS..].chars().next();
    !before.is_some_and(is_part) && !behind.is_some_and(is_part)
}

struct Name<'i> {
    name: &'i str,
    id: Uuid,
    is_shared: bool,
}

impl Name<'_> {
    fn quoted(&self) -> String {
        let Self { name, id, is_shared } = self;
        if *is_shared { format!("'{name}' ({id})") } else { format!("'{name}'") }
    }

    fn bare(&self) -> String {
        let Self { name, id, is_shared } = self;
        if *is_shared { format!("{name} ({id})") } else { (*name).to_owned() }
    }
}

/// What somebody may know an identity by.
fn name<'i>(intent: &'i Intent, identity: &Identity, id: Uuid) -> Option<Name<'i>> {
    macro_rules! of {
        ($($table:ident: $id:ident),+) => {
            $(if let Some(found) = intent.$table.get(&$id(id)) {
                let labels = intent.$table.values().map(|one| &one.label);
                return called(&found.label, labels, identity, id);
            })+
        };
    }
    of!(
        chains: ChainId,
        functions: FunctionId,
        instances: InstanceId,
        rules: RuleId,
        ports: PortId,
        networks: NetworkId,
        subnets: SubnetId,
        graphs: GraphId,
        slices: SliceId
    );
    None
}

fn called<'i>(
    label: &'i Label,
    all: impl Iterator<Item = &'i Label>,
    identity: &Identity,
    id: Uuid,
) -> Option<Name<'i>> {
    let name = label.name.as_str();
    if name.is_empty() || !identity.sees(&label.project) {
        return None;
    }
    let seen = all.filter(|other| identity.sees(&other.project));
    let is_shared = seen.filter(|other| other.name == name).count() > 1;
    Some(Name { name, id, is_shared })
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_model::ProjectId;
    use catena_model::access::Role;
    use catena_model::resource::ChainGraph;
    use std::collections::BTreeMap;

    const IDS: [Uuid; 5] = [
        Uuid::from_u128(1),
        Uuid::from_u128(2),
        Uuid::from_u128(3),
        Uuid::from_u128(4),
        Uuid::from_u128(5),
    ];

    fn intent() -> Intent {
        let named = [("web", "a"), ("twice", "a"), ("twice", "a"), ("secret", "b"), ("web", "b")];
        let graph = |(id, (name, project)): (Uuid, (&str, &str))| {
            let (name, project) = (name.to_owned(), ProjectId(project.into()));
            let label = Label { name, description: String::new(), project };
            (GraphId(id), ChainGraph { id: GraphId(id), label, branches: BTreeMap::new() })
        };
        Intent { graphs: IDS.into_iter().zip(named).map(graph).collect(), ..Intent::default() }
    }

    fn told(sentence: &str) -> String {
        let identity = Identity { project: ProjectId("a".into()), role: Role::Tenant };
        in_sentence(sentence, &intent(), &identity).into_owned()
    }

    #[test]
    fn what_has_a_name_is_called_by_it_and_by_its_identity_where_that_says_more() {
        let [web, twice, ..] = IDS;
        // That another project has one of the same name is nobody's business.
        assert_eq!(told(&format!("Graph {web} in use.")), "Graph 'web' in use.");
        assert_eq!(told(&format!("graph '{web}': no")), "graph 'web': no");
        assert_eq!(told(&format!("{twice} is")), format!("'twice' ({twice}) is"));
        assert_eq!(told(&format!("é {web}, {web}")), "é 'web', 'web'");
    }

    #[test]
    fn what_is_foreign_or_no_identity_stays_as_it_is() {
        let [web, _, _, foreign, _] = IDS;
        for sentence in [
            format!("Graph {foreign} in use."),
            format!("the unknown {}", Uuid::from_u128(9)),
            format!("0{web} and {web}-1"),
            "a short one, with no identity in it é".into(),
            String::new(),
        ] {
            assert_eq!(told(&sentence), sentence);
        }
    }
}
