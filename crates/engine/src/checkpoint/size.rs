//! What the size of a checkpoint means: a hint from 100 MB of new data on, and a place in the remote
//! from 1 GB on.

use segno_core::snapshot::Captured;

const MIB: u64 = 1024 * 1024;

/// From this many new bytes on, users are told how to exclude files.
const LARGE: u64 = 100 * MIB;

/// From this size on, a checkpoint is pushed, whatever the settings say about smaller ones.
const HUGE: u64 = 1024 * MIB;

/// What users should know about the size of a checkpoint.
pub fn size_hints(captured: &Captured, has_remote: bool) -> Vec<String> {
    let megabytes = |bytes: u64| format!("{}.{} MB", bytes / MIB, bytes % MIB * 10 / MIB);
    let mut hints = Vec::new();
    if captured.written > LARGE {
        hints.push(format!(
            "{} are new; `checkpoints.exclude` in config.toml excludes regenerable files",
            megabytes(captured.written)
        ));
    }
    if captured.bytes > HUGE && !has_remote {
        hints.push(format!(
            "the checkpoint has {}, more than one disk should hold alone; `remote.url` in \
             config.toml keeps copies of checkpoints in S3 or a mounted folder",
            megabytes(captured.bytes)
        ));
    }
    hints
}

/// Whether a checkpoint with this many bytes is pushed by itself, if larger ones than `above` are.
pub(crate) fn is_pushed(bytes: u64, above: u64) -> bool {
    above == 0 || bytes > above.min(HUGE)
}

#[cfg(test)]
mod tests {
    use segno_core::digest::Digest;

    use super::*;

    fn captured(bytes: u64, written: u64) -> Captured {
        Captured {
            snapshot: Digest::of(b""),
            files: 1,
            bytes,
            written,
            unstable: Vec::new(),
            skipped: Vec::new(),
            excluded: Vec::new(),
            repositories: Vec::new(),
        }
    }

    #[test]
    fn hints_begin_at_100_mb_and_1_gb() {
        let hints = |bytes, written, remote| size_hints(&captured(bytes, written), remote);
        assert_eq!(hints(HUGE, LARGE, false), [""; 0]);
        let new = hints(LARGE + MIB / 2, LARGE + MIB / 2, false);
        assert!(new[0].starts_with("100.5 MB are new; "), "{new:?}");
        let huge = hints(HUGE + MIB, 0, false);
        assert!(
            huge[0].starts_with("the checkpoint has 1025.0 MB, "),
            "{huge:?}"
        );
        assert_eq!(hints(HUGE + MIB, 0, true), [""; 0]);
    }

    #[test]
    fn checkpoints_above_1_gb_are_always_pushed() {
        for (bytes, above, expected) in [
            (1, 0, true),
            (MIB, 2 * MIB, false),
            (3 * MIB, 2 * MIB, true),
            (HUGE, 4 * HUGE, false),
            (HUGE + 1, 4 * HUGE, true),
        ] {
            assert_eq!(is_pushed(bytes, above), expected, "{bytes} {above}");
        }
    }
}
