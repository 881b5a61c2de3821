//! `catena token`: who else may use the API. The secret of a token is said once, when it is made.

use crate::connection::Connection;
use crate::failure::Failure;
use crate::output::{Format, block, say, table, tell};
use catena_client::Client;
use catena_model::access::{Role, TokenReport, TokenRequest};
use catena_model::id::ProjectId;
use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum TokenCommand {
    /// All tokens, without their secrets.
    List {
        /// How they are printed.
        #[arg(short, long, value_enum, default_value = "table")]
        output: Format,
    },
    /// Make a token; its secret is printed this once and kept nowhere.
    Create {
        /// What it is called; no two have the same name.
        name: String,
        /// The project whose chains its bearer sees and makes.
        #[arg(long)]
        project: String,
        /// What its bearer may do: viewer, tenant, operator or admin.
        #[arg(long, default_value = "tenant")]
        role: Role,
        /// How long it is good for, such as 90d, 12h, 30m or 45s [default: until it is deleted].
        #[arg(long, value_parser = lifetime)]
        lifetime: Option<u64>,
        /// How it is printed.
        #[arg(short, long, value_enum, default_value = "table")]
        output: Format,
    },
    /// Delete a token: the next request that shows it is refused.
    Delete {
        /// Name, id, or the beginning of an id that no other has.
        name: String,
    },
}

pub(crate) fn run(connection: &Connection, command: TokenCommand) -> Result<(), Failure> {
    let client = connection.client()?;
    match command {
        TokenCommand::List { output } => {
            let tokens = client.tokens()?;
            tell(output, &tokens, |_| list(&tokens))
        }
        TokenCommand::Create { name, project, role, lifetime, output } => {
            let project = ProjectId(project);
            let request = TokenRequest { name, project, role, lifetime_s: lifetime };
            let made = client.create_token(&request)?;
            tell(output, &made, |_| {
                let TokenReport { name, project, role, expires, .. } = &made.report;
                let end = expires.as_deref().unwrap_or("it is deleted");
                say!("token {name}   {role} of {project}, until {end}");
                say!("secret (shown this once, keep it): {}", made.secret);
            })
        }
        TokenCommand::Delete { name } => {
            let token = find(&client, &name)?;
            client.delete_token(&token.id.to_string())?;
            say!("token {} deleted", token.name);
            Ok(())
        }
    }
}

fn list(tokens: &[TokenReport]) {
    let mut table = table(["token", "id", "project", "role", "created", "expires"]);
    for token in tokens {
        table.add_row([
            token.name.clone(),
            token.id.to_string(),
            token.project.0.clone(),
            token.role.to_string(),
            token.created.clone(),
            token.expires.clone().unwrap_or_else(|| "-".into()),
        ]);
    }
    block(table);
}

/// The one token of a name, an id or the beginning of one.
fn find(client: &Client, name: &str) -> Result<TokenReport, Failure> {
    let mut all = client.tokens()?;
    if let Some(at) = all.iter().position(|token| token.name == name) {
        return Ok(all.swap_remove(at));
    }
    all.retain(|token| !name.is_empty() && token.id.to_string().starts_with(name));
    match all.len() {
        1 => Ok(all.swap_remove(0)),
        0 => Err(Failure::failed(format!(
            "there is no token '{name}'; 'catena token list' shows all"
        ))),
        count => Err(Failure::failed(format!(
            "{count} tokens have an id that begins with '{name}'; say more of it"
        ))),
    }
}

/// Seconds of a text such as `90d`.
fn lifetime(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is no time; write a number and d, h, m or s, such as 90d");
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds = match unit {
        'd' => 86_400,
        'h' => 3_600,
        'm' => 60,
        's' => 1,
        _ => return Err(wrong()),
    };
    let number = text.strip_suffix(unit).and_then(|number| number.parse::<u64>().ok());
    number.and_then(|number| number.checked_mul(seconds)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lifetime_is_a_number_with_its_unit() {
        for (text, seconds) in [("90d", 7_776_000), ("12h", 43_200), ("30m", 1_800), ("45s", 45)] {
            assert_eq!(lifetime(text), Ok(seconds));
        }
        for wrong in
            ["", "d", "90", "-1d", "1.5h", "9w", "99999999999999999999d", "999999999999999999d"]
        {
            assert!(lifetime(wrong).unwrap_err().contains("such as 90d"), "{wrong}");
        }
    }
}
