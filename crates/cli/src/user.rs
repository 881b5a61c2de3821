//! Users of this machine as they stand on a command line, and the one that a controller becomes. Knows
//! the file of local users; refuses to know what a role is for.

use crate::failure::Failure;
use catena_dataplane::shell::{User, drop_privileges, give_to};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

const USERS: &str = "/etc/passwd";
/// The user of data planes, where somebody has made one.
const OF_DATAPLANES: &str = "catena-dataplane";
/// The user of controllers, where somebody has made one.
const OF_CONTROLLERS: &str = "catena-controller";
/// A folder with keys is its owner's alone.
const PRIVATE: u32 = 0o700;

/// A user by NAME, UID or UID:GID.
///
/// # Errors
/// There is no such user, or it is root.
pub(crate) fn parse(text: &str) -> Result<User, String> {
    let (first, second) = text.split_once(':').unwrap_or((text, text));
    let user = match (first.parse(), second.parse()) {
        (Ok(uid), Ok(gid)) => User { uid, gid },
        _ => of_machine(text)
            .ok_or_else(|| format!("there is no user '{text}' in {USERS}; write UID:GID"))?,
    };
    if user.uid == 0 || user.gid == 0 {
        return Err(format!("'{text}' is root, who needs not be named"));
    }
    Ok(user)
}

/// The user that data planes of a root's agent run as, where it exists.
pub(crate) fn of_dataplanes() -> Option<User> {
    of_root(OF_DATAPLANES)
}

/// The user that a root's controller becomes, where it exists.
pub(crate) fn of_controllers() -> Option<User> {
    of_root(OF_CONTROLLERS)
}

fn of_root(name: &str) -> Option<User> {
    if !catena_kernel::capabilities::is_root() {
        return None;
    }
    parse(name).ok()
}

/// Becomes a user for good and without any right of root; the folder is made, and is this user's with
/// all that is in it. No second thread may have been started.
///
/// # Errors
/// Who is not root becomes nobody else.
pub(crate) fn become_owner(user: User, folder: &Path) -> Result<(), Failure> {
    let given = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(PRIVATE)
        .create(folder)
        .and_then(|()| give_to(folder, user));
    given.map_err(|error| {
        let (folder, User { uid, gid }) = (folder.display(), user);
        Failure::failed(format!("{folder} cannot be given to user {uid}:{gid}: {error}"))
    })?;
    drop_privileges(Some(user)).map_err(|error| {
        let User { uid, gid } = user;
        Failure::failed(format!("cannot become user {uid}:{gid}: {error}; start it as root"))
    })
}

fn of_machine(name: &str) -> Option<User> {
    find(&std::fs::read_to_string(USERS).ok()?, name)
}

/// A user in a text of the form of passwd(5).
fn find(users: &str, name: &str) -> Option<User> {
    let fields = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let number = |fields: &[&str], at: usize| fields.get(at)?.parse().ok();
    fields
        .filter(|fields| fields.first() == Some(&name))
        .find_map(|fields| Some(User { uid: number(&fields, 2)?, gid: number(&fields, 3)? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_named_or_numbered_and_never_root() {
        assert_eq!(parse("61181").unwrap(), User { uid: 61_181, gid: 61_181 });
        assert_eq!(parse("7:8").unwrap(), User { uid: 7, gid: 8 });
        for text in ["root", "0", "0:7", "7:0"] {
            assert!(parse(text).unwrap_err().contains("root"), "{text}");
        }
        assert!(parse("no such user").unwrap_err().contains("UID:GID"));
        let users = "root:x:0:0::/:/bin/sh\nbroken\ncatena-dataplane:x:990:991::/:/none\n";
        assert_eq!(find(users, OF_DATAPLANES).unwrap(), User { uid: 990, gid: 991 });
        assert_eq!(find(users, "broken"), None);
    }
}
