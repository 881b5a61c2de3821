//! Which controller the verbs talk to: the one that is named, else the running lab's, else the
//! default address.

use crate::failure::Failure;
use catena_client::{API_PORT, Client};
use clap::Args;

/// Where a controller listens unless told otherwise.
pub(crate) fn default_api() -> String {
    format!("127.0.0.1:{API_PORT}")
}

#[derive(Args)]
pub(crate) struct Connection {
    /// The controller's URL; without it that of the lab that runs, else of a controller here at its
    /// default address.
    #[arg(long, global = true, env = "CATENA_URL")]
    url: Option<String>,
    /// Token of the API.
    #[arg(long, global = true, env = "CATENA_TOKEN", hide_env_values = true)]
    token: Option<String>,
}

impl Connection {
    /// The token, if one is given.
    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_deref().filter(|token| !token.is_empty())
    }

    /// A client of the controller that is meant.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        let url = match &self.url {
            Some(url) => url.clone(),
            None => running_lab_url()?.unwrap_or_else(|| format!("http://{}", default_api())),
        };
        Ok(Client::new(url, self.token.clone())?)
    }
}

/// The API of the one lab that runs here; with several, the operator must choose.
fn running_lab_url() -> Result<Option<String>, Failure> {
    let labs = catena_lab::list()?;
    match labs.as_slice() {
        [] => Ok(None),
        [lab] => Ok(Some(format!("http://{}", catena_lab::status(lab)?.api))),
        several => Err(Failure::usage(format!(
            "several labs are running ({}): name the controller with --url, as `catena lab status` prints it",
            several.join(", ")
        ))),
    }
}
