//! What is written to people: beside results (nothing depends on it, so that a closed or full standard error ends nothing), and results.

use std::fmt;
use std::io::{self, Write};

/// A line on standard error, if it takes one. It may repeat what stands in a file, or what a server says.
pub(crate) fn write_note(line: fmt::Arguments<'_>) {
    writeln!(io::stderr(), "{}", kumade_lab::printable(&line.to_string())).ok();
}

/// As `eprintln!`, but where standard error is closed or full, it says nothing instead of panicking.
macro_rules! note {
    ($($line:tt)*) => { $crate::output::write_note(format_args!($($line)*)) };
}
pub(crate) use note;

/// Standard error, for those who would panic if it failed.
pub(crate) struct UnfailingStderr;

impl Write for UnfailingStderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stderr().write_all(bytes).ok();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Standard output, whose errors say so.
pub(crate) struct StandardOutput;

impl Write for StandardOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stdout().write(bytes).map_err(output_error)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush().map_err(output_error)
    }
}

/// Of the same kind, so that a closed pipe can be told from a full disk.
fn output_error(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot write to standard output: {error}"))
}
