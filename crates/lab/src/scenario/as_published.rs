//! What a scenario file says of the experiment as it was published: `[as-published]` has keys that replace those of the file, such as all points
//! of a paper, and what the paper states about them.

use super::refusal::Refusal;
use crate::report::Statement;
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

const SECTION: &str = "as-published";
const STATEMENTS: &str = "statements";

#[derive(Deserialize)]
struct StatementList {
    #[serde(default)]
    statements: Vec<Statement>,
}

/// Takes the section out of a file. Where it `is_chosen`, its keys replace those of the file. Returns what it states.
///
/// # Errors
/// It is chosen and there is none, or it is not written as such a section.
pub(super) fn apply_section(document: &mut DeTable<'_>, is_chosen: bool) -> Result<Vec<Statement>, Refusal> {
    let missing = || {
        "it does not say how it was published (it has no section [as-published]); leave --as-published out".to_owned()
    };
    let Some(section) = document.remove(SECTION) else {
        return if is_chosen { Err(Refusal::Invalid(missing())) } else { Ok(Vec::new()) };
    };
    let span = section.span();
    let DeValue::Table(mut section) = section.into_inner() else { return Err(Refusal::Invalid(missing())) };
    let mut stated = DeTable::new();
    if let Some((key, statements)) = section.remove_entry(STATEMENTS) {
        stated.insert(key, statements);
    }
    let StatementList { statements } =
        StatementList::deserialize(toml::Deserializer::from(Spanned::new(span, stated))).map_err(Refusal::Malformed)?;
    for (key, value) in section.into_iter().filter(|_| is_chosen) {
        document.remove(&**key.get_ref());
        document.insert(key, value);
    }
    Ok(statements)
}
