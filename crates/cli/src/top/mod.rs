//! `catena top`: chains, nodes and drops as they move, for the keyboard. Knows the terminal and when
//! to ask; what is asked is `sample`'s, what a key does `screen`'s, what is shown `draw`'s.

mod draw;
pub(crate) mod sample;
mod screen;

use crate::connection::Connection;
use crate::failure::Failure;
use catena_client::{Client, ClientError};
use catena_model::id::ChainId;
use clap::Args;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use sample::Sample;
use screen::{Next, Page, Screen};
use std::io::IsTerminal;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a key may wait at most before the screen answers.
const KEY_WAIT: Duration = Duration::from_millis(100);

#[derive(Args)]
pub(crate) struct TopArguments {
    /// Seconds between two readings of the counters.
    #[arg(long, default_value_t = 1.0, value_parser = seconds)]
    interval: f64,
}

fn seconds(text: &str) -> Result<f64, String> {
    let parsed = text.parse::<f64>().map_err(|error| error.to_string())?;
    if (0.1..=60.0).contains(&parsed) { Ok(parsed) } else { Err("between 0.1 and 60".into()) }
}

pub(crate) fn run(connection: &Connection, arguments: &TopArguments) -> Result<(), Failure> {
    let client = connection.client()?;
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(Failure::usage(
            "`catena top` needs a terminal; `catena status` and `catena chain show` print once",
        ));
    }
    // What keeps it from starting is said on the terminal as it was.
    let first = Sample::take(&client, None, Instant::now())?;
    let base = client.base().to_owned();
    let looked_at = Arc::<LookedAt>::default();
    let interval = Duration::from_secs_f64(arguments.interval);
    let samples = take_samples(client, interval, Arc::clone(&looked_at));
    let mut screen = Screen::new(base, first);
    let mut terminal = ratatui::try_init()?;
    let outcome = show(&mut terminal, &mut screen, &samples, &looked_at);
    ratatui::restore();
    outcome.map_err(Failure::from)
}

/// The chain that is looked at, if any is.
type LookedAt = Mutex<Option<ChainId>>;

/// Reads the counters in a thread of its own: a slow controller must not hold up the keyboard.
fn take_samples(
    client: Client,
    interval: Duration,
    looked_at: Arc<LookedAt>,
) -> Receiver<Result<Sample, ClientError>> {
    let (sender, samples) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(interval);
            let chain = *looked_at.lock().unwrap_or_else(PoisonError::into_inner);
            if sender.send(Sample::take(&client, chain, Instant::now())).is_err() {
                return;
            }
        }
    });
    samples
}

fn show(
    terminal: &mut DefaultTerminal,
    screen: &mut Screen,
    samples: &Receiver<Result<Sample, ClientError>>,
    looked_at: &LookedAt,
) -> std::io::Result<()> {
    loop {
        while let Ok(sample) = samples.try_recv() {
            screen.take(sample.map_err(|error| error.to_string()));
        }
        *looked_at.lock().unwrap_or_else(PoisonError::into_inner) = match screen.page {
            Page::Chain(chain) => Some(chain),
            Page::Chains | Page::Nodes | Page::Drops => None,
        };
        terminal.draw(|frame| draw::draw(frame, screen))?;
        if !event::poll(KEY_WAIT)? {
            continue;
        }
        if let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
            && screen.press(key) == Next::Leave
        {
            return Ok(());
        }
    }
}
