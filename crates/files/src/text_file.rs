use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Longer ones are refused.
const MAX_MEGABYTES: u64 = 64;

/// Reads a text file that somebody else names: it may be a device without an end.
///
/// # Errors
/// It can't be read, is no text, or is longer than 64 MB.
pub fn read_text(path: impl AsRef<Path>) -> io::Result<String> {
    let mut text = String::new();
    let most = MAX_MEGABYTES << 20;
    File::open(path)?.take(most + 1).read_to_string(&mut text)?;
    if text.len() as u64 > most {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is longer than {MAX_MEGABYTES}mb")));
    }
    Ok(text)
}
