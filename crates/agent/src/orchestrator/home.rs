//! What is kept of an instance beside it: what it is to be, which process it is, and what that has said. By it an agent
//! that comes back finds what runs. Knows files; refuses to know processes.

use catena_model::instance::InstanceSpec;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

const SPEC: &str = "spec.json";
const PROCESS: &str = "process.json";
const LOG: &str = "log";
const FORMER_LOG: &str = "log.1";
const ALERTS: &str = "eve.json";
const CONFIGURATION: &str = "configuration.json";

/// Nobody else reads what instances are told, or decides what is run.
const PRIVATE: u32 = 0o700;
const OTHERS_WRITE: u32 = 0o022;

/// What an instance says is kept up to so many bytes, and as many of before.
const LOG_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// A process, as another agent finds it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Known {
    /// Of the machine's start: numbers of processes mean nothing after another one.
    pub(super) boot: String,
    pub(super) pid: u32,
    /// When it was started, in ticks since the machine was.
    pub(super) started_at: u64,
    /// How often it was started anew before.
    pub(super) restarts: u32,
}

/// The folder of one instance.
#[derive(Clone, Debug)]
pub(super) struct Home(PathBuf);

impl Home {
    /// Makes the folder that all of them are in. What somebody else may write there is not trusted.
    ///
    /// # Errors
    /// It cannot be made, or is not only ours.
    pub(super) fn prepare(all: &Path) -> io::Result<()> {
        if let Some(parent) = all.parent() {
            fs::create_dir_all(parent)?;
        }
        match DirBuilder::new().mode(PRIVATE).create(all) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
        let found = fs::symlink_metadata(all)?;
        let own = rustix::process::geteuid().as_raw();
        if !found.is_dir() || found.uid() != own || found.mode() & OTHERS_WRITE != 0 {
            return Err(io::Error::other("it must be a folder that nobody else may write to"));
        }
        fs::set_permissions(all, Permissions::from_mode(PRIVATE))
    }

    /// The folder of an instance among all.
    pub(super) fn of(all: &Path, spec: &InstanceSpec) -> Self {
        Self(all.join(spec.id.to_string()))
    }

    /// All that are there, with what they are to be. What cannot be read is told and left.
    pub(super) fn all(all: &Path) -> Vec<(Self, InstanceSpec)> {
        let entries = fs::read_dir(all).into_iter().flatten().flatten();
        let read = |folder: PathBuf| {
            let home = Self(folder);
            match home.read::<InstanceSpec>(SPEC) {
                Ok(spec) => Some((home, spec)),
                Err(error) => {
                    tracing::warn!(
                        "what ran here before cannot be read ({}): {error}",
                        home.0.display()
                    );
                    None
                }
            }
        };
        entries.filter_map(|entry| read(entry.path())).collect()
    }

    /// Keeps what an instance is to be.
    ///
    /// # Errors
    /// The disk refuses.
    pub(super) fn keep(&self, spec: &InstanceSpec) -> io::Result<()> {
        DirBuilder::new().mode(PRIVATE).recursive(true).create(&self.0)?;
        self.write(SPEC, spec)
    }

    /// Keeps which process it is.
    ///
    /// # Errors
    /// The disk refuses.
    pub(super) fn keep_process(&self, known: &Known) -> io::Result<()> {
        self.write(PROCESS, known)
    }

    /// The process that it was last.
    pub(super) fn process(&self) -> Option<Known> {
        self.read(PROCESS).ok()
    }

    /// Writes a configuration for a bundled function, and answers where.
    ///
    /// # Errors
    /// The disk refuses.
    pub(super) fn write_configuration(
        &self,
        configuration: &impl Serialize,
    ) -> io::Result<PathBuf> {
        self.write(CONFIGURATION, configuration)?;
        Ok(self.0.join(CONFIGURATION))
    }

    /// Where a bundled function writes its alerts.
    pub(super) fn alerts(&self) -> PathBuf {
        self.0.join(ALERTS)
    }

    /// Where an instance writes what it says.
    ///
    /// # Errors
    /// The disk refuses.
    pub(super) fn log(&self) -> io::Result<File> {
        OpenOptions::new().create(true).append(true).open(self.0.join(LOG))
    }

    /// Keeps files that grow within their bounds. Whoever writes goes on with an empty one.
    ///
    /// # Errors
    /// The disk refuses.
    pub(super) fn trim_log(&self) -> io::Result<()> {
        let path = self.0.join(LOG);
        let length = fs::metadata(&path).map_or(0, |found| found.len());
        if length <= LOG_BYTES_MAX {
            return Ok(());
        }
        let mut log = OpenOptions::new().read(true).write(true).open(&path)?;
        // However much it is, its end is kept.
        log.seek(SeekFrom::Start(length - LOG_BYTES_MAX))?;
        io::copy(&mut (&log).take(LOG_BYTES_MAX), &mut File::create(self.0.join(FORMER_LOG))?)?;
        log.set_len(0)
    }

    /// Where people find what it says.
    pub(super) fn log_path(&self) -> PathBuf {
        self.0.join(LOG)
    }

    /// Removes all of it.
    ///
    /// # Errors
    /// The disk refuses.
    pub(super) fn remove(&self) -> io::Result<()> {
        fs::remove_dir_all(&self.0)
    }

    /// Whole or not at all, whenever the machine stops.
    fn write(&self, name: &str, value: &impl Serialize) -> io::Result<()> {
        let (to, beside) = (self.0.join(name), self.0.join(format!("{name}.new")));
        let file = File::create(&beside)?;
        // A rule set has many lines, and each would be several writes.
        let mut buffered = BufWriter::new(&file);
        serde_json::to_writer(&mut buffered, value)?;
        buffered.flush()?;
        file.sync_data()?;
        fs::rename(beside, to)
    }

    fn read<T: for<'de> Deserialize<'de>>(&self, name: &str) -> io::Result<T> {
        Ok(serde_json::from_slice(&fs::read(self.0.join(name))?)?)
    }
}
