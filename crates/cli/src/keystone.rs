//! The options of `--auth keystone`: which Keystone is believed, and what its roles mean here.

use crate::failure::Failure;
use catena_controller::{KEYSTONE_REMEMBER_MAX, KeystoneConfig, KeystoneService};
use catena_model::Role;
use clap::Args;
use std::path::{Path, PathBuf};
use std::time::Duration;

const REMEMBER_MAX_S: u64 = KEYSTONE_REMEMBER_MAX.as_secs();

#[derive(Args)]
#[command(next_help_heading = "With --auth keystone")]
pub(crate) struct KeystoneArguments {
    /// Its URL, such as http://127.0.0.1:5000/v3.
    #[arg(long)]
    keystone_url: Option<String>,
    /// The user as whom tokens are validated; he needs the role service or admin.
    #[arg(long, default_value = "catena")]
    keystone_user: String,
    /// His password; better in the environment or a file, for every user of this host sees options.
    #[arg(long, env = "CATENA_KEYSTONE_PASSWORD", hide_env_values = true)]
    keystone_password: Option<String>,
    /// The file with his password.
    #[arg(long, conflicts_with = "keystone_password")]
    keystone_password_file: Option<PathBuf>,
    /// The project in which he has that role.
    #[arg(long, default_value = "service")]
    keystone_project: String,
    /// The domain of user and project, by name.
    #[arg(long, default_value = "Default")]
    keystone_domain: String,
    /// The file with a token for validating, instead of user and password.
    #[arg(long, conflicts_with_all = ["keystone_password", "keystone_password_file"])]
    keystone_token_file: Option<PathBuf>,
    /// What a role of Keystone means here: NAME=viewer|tenant|operator|admin, or NAME=none. Besides:
    /// admin=admin, service=operator, manager=operator, member=tenant, reader=viewer.
    #[arg(long, value_parser = role)]
    keystone_role: Vec<(String, Option<Role>)>,
    /// Seconds for which an answer of Keystone is believed, at most 60: so long a token that was
    /// revoked may still pass.
    #[arg(long, default_value_t = REMEMBER_MAX_S)]
    #[arg(value_parser = clap::value_parser!(u64).range(..=REMEMBER_MAX_S))]
    keystone_remember: u64,
}

impl KeystoneArguments {
    /// What the controller is told.
    pub(crate) fn config(self) -> Result<KeystoneConfig, Failure> {
        let url = self.keystone_url.ok_or_else(|| {
            Failure::usage(
                "--auth keystone: say which one, such as --keystone-url http://127.0.0.1:5000",
            )
        })?;
        let password = match (self.keystone_password, &self.keystone_password_file) {
            (Some(password), _) => Some(password),
            (None, Some(file)) => Some(read(file)?),
            (None, None) => None,
        };
        let service = match (self.keystone_token_file, password) {
            (Some(file), _) => KeystoneService::TokenFile(file),
            (None, Some(password)) => KeystoneService::Password {
                user: self.keystone_user,
                password,
                project: self.keystone_project,
                domain: self.keystone_domain,
            },
            (None, None) => {
                return Err(Failure::usage(
                    "--auth keystone: the controller must prove who it is: give \
                     --keystone-password-file or --keystone-token-file",
                ));
            }
        };
        let mut config = KeystoneConfig::new(url, service);
        config.remember = Duration::from_secs(self.keystone_remember);
        for (name, role) in self.keystone_role {
            match role {
                Some(role) => config.roles.insert(name, role),
                None => config.roles.remove(&name),
            };
        }
        Ok(config)
    }
}

fn read(file: &Path) -> Result<String, Failure> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        Failure::failed(format!(
            "--keystone-password-file {}: {error}; check that it exists and belongs to this user",
            file.display()
        ))
    })?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

fn role(text: &str) -> Result<(String, Option<Role>), String> {
    let (name, role) = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| format!("'{text}' is not NAME=ROLE"))?;
    let role = if role == "none" { None } else { Some(role.parse()?) };
    Ok((name.to_lowercase(), role))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        keystone: KeystoneArguments,
    }

    fn config(options: &[&str]) -> Result<KeystoneConfig, Failure> {
        let line = ["catena"].iter().chain(options);
        let parsed =
            Command::try_parse_from(line).map_err(|error| Failure::usage(error.to_string()));
        parsed?.keystone.config()
    }

    #[test]
    fn what_is_missing_or_contradicts_is_said_by_its_option() {
        let url = ["--keystone-url", "http://127.0.0.1:5000"];
        for (options, said) in [
            (vec![], "--keystone-url"),
            (url.to_vec(), "--keystone-password-file"),
            ([&url[..], &["--keystone-role", "member"]].concat(), "NAME=ROLE"),
            ([&url[..], &["--keystone-role", "member=king"]].concat(), "no role"),
            ([&url[..], &["--keystone-remember", "61"]].concat(), "61"),
            ([&url[..], &["--keystone-password-file", "/nowhere/x"]].concat(), "/nowhere/x"),
        ] {
            let failure = config(&options).unwrap_err();
            assert!(failure.message.contains(said), "{options:?}: {}", failure.message);
        }
    }

    #[test]
    fn roles_may_be_added_and_taken_away() {
        let options = [
            "--keystone-url",
            "http://127.0.0.1:5000",
            "--keystone-password",
            "p",
            "--keystone-role",
            "Operator=operator",
            "--keystone-role",
            "member=none",
        ];
        let config = config(&options).unwrap();
        assert_eq!(config.roles.get("operator"), Some(&Role::Operator));
        assert_eq!(config.roles.get("member"), None);
        assert_eq!(config.roles.get("reader"), Some(&Role::Viewer));
        assert_eq!(config.remember, KEYSTONE_REMEMBER_MAX);
    }
}
