//! `catena top`: chains, nodes and drops as they move, for the keyboard. Knows the terminal and when
//! to ask; what is asked is `sample`'s, what a key does `screen`'s, what is shown `draw`'s.

mod draw;
pub(crate) mod sample;
mod screen;

use crate::connection::Connection;
use crate::failure::Failure;
use catena_client::{Client, ClientError};
use clap::Args;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use sample::Sample;
use screen::{Next, Screen};
use std::io::IsTerminal;
use std::sync::mpsc::{self, Receiver};
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
    let first = Sample::take(&client, Instant::now())?;
    let base = client.base().to_owned();
    let samples = take_samples(client, Duration::from_secs_f64(arguments.interval));
    let mut screen = Screen::new(base, first);
    let mut terminal = ratatui::try_init()?;
    let outcome = show(&mut terminal, &mut screen, &samples);
    ratatui::restore();
    outcome.map_err(Failure::from)
}

/// Reads the counters in a thread of its own: a slow controller must not hold up the keyboard.
fn take_samples(client: Client, interval: Duration) -> Receiver<Result<Sample, ClientError>> {
    let (sender, samples) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(interval);
            if sender.send(Sample::take(&client, Instant::now())).is_err() {
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
) -> std::io::Result<()> {
    loop {
        while let Ok(sample) = samples.try_recv() {
            screen.take(sample.map_err(|error| error.to_string()));
        }
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
