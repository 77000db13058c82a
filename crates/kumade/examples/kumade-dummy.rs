//! The program with the entries that the feature `dummy` adds to the tables of disciplines and methods, for
//! `tests/tables.rs`.

use std::process::ExitCode;

fn main() -> ExitCode {
    kumade::main()
}
