//! Measures the disk and the load of the machine between the measurements, to show whether a figure
//! can be trusted.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};

use crate::figures::{Samples, millis};

/// Probes the disk between measurements.
pub(crate) struct Disk {
    folder: PathBuf,
    probes: Samples,
    load: Samples,
}

impl Disk {
    pub(crate) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            probes: Samples::default(),
            load: Samples::default(),
        }
    }

    /// Measures the disk now: the median of 50 appends of 4 KB, each synced.
    pub(crate) fn probe(&mut self) {
        let path = self.folder.join("probe");
        let mut file = File::create(&path).unwrap();
        let mut times = Samples::default();
        for _ in 0..50 {
            let begun = Instant::now();
            file.write_all(&[0; 4096]).unwrap();
            file.sync_data().unwrap();
            times.push(millis(begun.elapsed()));
        }
        std::fs::remove_file(path).unwrap();
        self.probes.push(times.median());
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        if let Some(load) = load.split(' ').next().and_then(|word| word.parse().ok()) {
            self.load.push(load);
        }
    }

    pub(crate) fn describe(&self) -> String {
        format!(
            "one synced 4 KB append, between the measurements: {} ms, from {:.3} to {:.3}; load {}, up to {:.1}, on {} cores\n",
            self.probes,
            self.probes.quantile(0.0),
            self.probes.quantile(1.0),
            self.load,
            self.load.quantile(1.0),
            std::thread::available_parallelism().map_or(1, usize::from),
        )
    }

    pub(crate) fn json(&self) -> Value {
        json!({"synced_append_ms": self.probes.0, "load": self.load.0})
    }
}

/// The disk space that a folder uses, in bytes.
pub(crate) fn allocated(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries
        .map(|entry| {
            let metadata = entry.metadata().unwrap();
            if metadata.is_dir() {
                allocated(&entry.path())
            } else {
                metadata.blocks() * 512
            }
        })
        .sum()
}
