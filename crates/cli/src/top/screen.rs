//! What the live view holds and what each key does to it. Knows no terminal.

use super::sample::Sample;
use catena_model::id::ChainId;
use catena_model::status::{ChainSummary, NodeReport};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// A page of the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    /// All chains.
    Chains,
    /// All nodes.
    Nodes,
    /// Drops by name.
    Drops,
    /// The hops of one chain.
    Chain(ChainId),
}

/// What the loop does after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Stay,
    Leave,
}

/// The state of the view.
pub(super) struct Screen {
    pub(super) base: String,
    pub(super) page: Page,
    pub(super) selected: usize,
    pub(super) filter: String,
    /// The keys go into the filter.
    pub(super) is_filtering: bool,
    pub(super) is_paused: bool,
    /// Why the last reading failed.
    pub(super) trouble: Option<String>,
    pub(super) last: Sample,
    pub(super) before: Option<Sample>,
}

impl Screen {
    pub(super) fn new(base: String, first: Sample) -> Self {
        Self {
            base,
            page: Page::Chains,
            selected: 0,
            filter: String::new(),
            is_filtering: false,
            is_paused: false,
            trouble: None,
            last: first,
            before: None,
        }
    }

    /// Takes a new reading, or the reason why there is none: then the last one stays.
    pub(super) fn take(&mut self, sample: Result<Sample, String>) {
        if self.is_paused {
            return;
        }
        match sample {
            Ok(sample) => {
                self.trouble = None;
                self.before = Some(std::mem::replace(&mut self.last, sample));
                self.selected = self.selected.min(self.rows().saturating_sub(1));
            }
            Err(trouble) => self.trouble = Some(trouble),
        }
    }

    /// The chains that the filter lets through.
    pub(super) fn chains(&self) -> impl Iterator<Item = &ChainSummary> {
        self.last.chains.iter().filter(|chain| self.passes(&chain.name))
    }

    /// The nodes that the filter lets through.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &NodeReport> {
        self.last.nodes.iter().filter(|node| self.passes(node.status.node.as_str()))
    }

    /// Does the filter let a name through?
    pub(super) fn passes(&self, name: &str) -> bool {
        name.to_lowercase().contains(&self.filter.to_lowercase())
    }

    fn rows(&self) -> usize {
        match self.page {
            Page::Chains => self.chains().count(),
            Page::Nodes => self.nodes().count(),
            Page::Drops => self.last.drops().iter().filter(|(r, _)| self.passes(r.name())).count(),
            Page::Chain(chain) => self.last.chain(chain).hops.len(),
        }
    }

    /// Does what a key stands for.
    pub(super) fn press(&mut self, key: KeyEvent) -> Next {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Next::Leave;
        }
        if self.is_filtering {
            self.edit_filter(key.code);
            return Next::Stay;
        }
        match key.code {
            KeyCode::Char('q') => return Next::Leave,
            KeyCode::Char('1') => self.turn_to(Page::Chains),
            KeyCode::Char('2') => self.turn_to(Page::Nodes),
            KeyCode::Char('3') => self.turn_to(Page::Drops),
            KeyCode::Tab => self.turn_to(match self.page {
                Page::Chains | Page::Chain(_) => Page::Nodes,
                Page::Nodes => Page::Drops,
                Page::Drops => Page::Chains,
            }),
            KeyCode::Char('/') => self.is_filtering = true,
            KeyCode::Char('p') => self.is_paused = !self.is_paused,
            KeyCode::Up | KeyCode::Char('k') => self.selected = self.selected.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => {
                self.selected = (self.selected + 1).min(self.rows().saturating_sub(1));
            }
            KeyCode::Enter => self.descend(),
            KeyCode::Esc | KeyCode::Backspace => self.ascend(),
            _ => {}
        }
        Next::Stay
    }

    fn turn_to(&mut self, page: Page) {
        self.page = page;
        self.selected = 0;
    }

    fn descend(&mut self) {
        let selected = self.chains().nth(self.selected).map(|chain| chain.status.chain);
        if let (Page::Chains, Some(chain)) = (self.page, selected) {
            self.turn_to(Page::Chain(chain));
        }
    }

    fn ascend(&mut self) {
        match self.page {
            Page::Chain(chain) => {
                self.turn_to(Page::Chains);
                let place = self.chains().position(|known| known.status.chain == chain);
                self.selected = place.unwrap_or_default();
            }
            _ => self.filter.clear(),
        }
    }

    fn edit_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.is_filtering = false,
            KeyCode::Esc => {
                self.filter.clear();
                self.is_filtering = false;
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
        self.selected = 0;
    }
}
