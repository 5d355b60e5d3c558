//! A QR code for a terminal.
//!
//! Each character shows two modules, one above the other, in half blocks. Light modules are drawn,
//! so that the code is right on a dark background; on a light one it is inverted, which phones read,
//! too.

use qrcode::{Color, EcLevel, QrCode};

use crate::failure::Failure;

/// How many light modules are around a code, as readers need.
const QUIET: usize = 4;

/// The lines that show `text`.
pub(super) fn lines(text: &str) -> Result<Vec<String>, Failure> {
    let code = QrCode::with_error_correction_level(text, EcLevel::L);
    let code = code.map_err(|error| {
        Failure::internal(format!("the address does not fit into a QR code: {error}"))
    })?;
    let (width, colors) = (code.width(), code.to_colors());
    let is_light = |x: usize, y: usize| {
        let inside = |at: usize| at.checked_sub(QUIET).filter(|at| *at < width);
        match (inside(x), inside(y)) {
            (Some(x), Some(y)) => colors.get(y * width + x) == Some(&Color::Light),
            _ => true,
        }
    };
    let side = width + 2 * QUIET;
    let rows = (0..side).step_by(2).map(|y| {
        let columns = 0..side;
        let shown = columns.map(
            |x| match (is_light(x, y), y + 1 < side && is_light(x, y + 1)) {
                (true, true) => '█',
                (true, false) => '▀',
                (false, true) => '▄',
                (false, false) => ' ',
            },
        );
        shown.collect::<String>()
    });
    Ok(rows.collect())
}
