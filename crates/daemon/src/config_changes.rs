//! What differs between the configuration of a running program and another one that it is to have, in lines for people.

use std::fmt::Display;

/// A value that may be missing.
pub fn show_option<T: Display>(value: Option<T>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| value.to_string())
}

/// Lines for the values that are others: what, before, after.
pub fn value_changes<W: Display>(values: impl IntoIterator<Item = (W, String, String)>) -> Vec<String> {
    let changed = values.into_iter().filter(|(_, before, after)| before != after);
    changed.map(|(what, before, after)| format!("{what}: {after} in place of {before}")).collect()
}

/// Lines for what was added to a list and what was removed, whatever its order.
pub fn list_changes<T: PartialEq + Display>(what: &str, before: &[T], after: &[T]) -> Vec<String> {
    let removed = before.iter().filter(|one| !after.contains(one)).map(|one| format!("{what} {one}: removed"));
    let added = after.iter().filter(|one| !before.contains(one)).map(|one| format!("{what} {one}: added"));
    removed.chain(added).collect()
}

/// Lines for what was added, removed, or is another one, by names.
pub fn named_changes<T, N: PartialEq + Display>(
    what: &str,
    before: &[T],
    after: &[T],
    name: impl Fn(&T) -> N,
    compare: impl Fn(&T, &T) -> Vec<String>,
) -> Vec<String> {
    let names = |list: &[T]| list.iter().map(&name).collect::<Vec<_>>();
    let mut lines = list_changes(what, &names(before), &names(after));
    for new in after {
        let old = before.iter().find(|old| name(old) == name(new));
        let changes = old.into_iter().flat_map(|old| compare(old, new));
        lines.extend(changes.map(|line| format!("{what} {}: {line}", name(new))));
    }
    lines
}
