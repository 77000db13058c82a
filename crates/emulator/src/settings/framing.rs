//! What packets take on the line, in the words of `tc`.

use super::value::parse_number;
use kumade_link::{Cells, Framing};

/// Reads what is written behind `key`.
pub(super) fn set(framing: &mut Framing, key: &str, text: &str) -> Result<(), String> {
    match key {
        "overhead" => framing.overhead_bytes = parse_number(text.strip_prefix('+').unwrap_or(text))?,
        "mpu" => framing.min_frame_bytes = parse_number(text)?,
        _ => framing.cells = parse_cells(text)?,
    }
    Ok(())
}

/// What differs from none, as it is read.
pub(super) fn to_words(framing: Framing) -> Vec<(&'static str, String)> {
    let plain = Framing::default();
    let overhead = (framing.overhead_bytes != 0).then(|| ("overhead", framing.overhead_bytes.to_string()));
    let mpu = (framing.min_frame_bytes != 0).then(|| ("mpu", framing.min_frame_bytes.to_string()));
    let cells = (framing.cells != plain.cells).then(|| ("linklayer", show_cells(framing.cells)));
    [overhead, mpu, cells].into_iter().flatten().collect()
}

fn parse_cells(text: &str) -> Result<Cells, String> {
    match text {
        "none" | "ethernet" => return Ok(Cells::None),
        "atm" | "adsl" => return Ok(Cells::ATM),
        "ptm" => return Ok(Cells::Ptm),
        _ => {}
    }
    let problem = || {
        format!(
            "`{text}` is neither none, atm nor ptm, nor like 48+5: the bytes that a cell carries, and those of its header"
        )
    };
    let (payload, header) = text.split_once('+').ok_or_else(problem)?;
    let number = |text: &str| text.parse().map_err(|_| problem());
    Ok(Cells::Fixed { payload_bytes: number(payload)?, header_bytes: number(header)? })
}

fn show_cells(cells: Cells) -> String {
    match cells {
        Cells::None => "none".to_owned(),
        Cells::ATM => "atm".to_owned(),
        Cells::Fixed { payload_bytes, header_bytes } => format!("{payload_bytes}+{header_bytes}"),
        Cells::Ptm => "ptm".to_owned(),
    }
}
