//! Elements of a scenario file's lists that stand for several: `each = { loss = ["0%", "1%"] }` in a table repeats it for each value, which
//! replaces `{loss}` in the table's texts. Several names give each combination of their values, the last name's values changing first; names
//! are in alphabetical order. Of cases that are listed or made so, no two may be called the same: their figures would be put together.

use crate::nearest_name::advice_for;
use std::borrow::Cow;
use std::collections::BTreeSet;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

const KEY: &str = "each";
/// What lists of cases are called; the second one in experiments on contention.
const CASE_KEYS: [&str; 2] = ["cases", "contention"];
/// More elements than any experiment needs, and few enough for any machine.
const MAX_ELEMENTS: usize = 10_000;

type Element<'a> = Spanned<DeValue<'a>>;

/// Repeats the elements of all lists in the table that ask for it.
///
/// # Errors
/// What such an element lists is no list of texts, there are too many combinations, or it has a placeholder that it has no values for.
pub(super) fn expand_elements(table: &mut DeTable<'_>) -> Result<(), String> {
    expand_table(table, &mut 0)
}

/// `made` counts the elements of the whole file.
fn expand_table(table: &mut DeTable<'_>, made: &mut usize) -> Result<(), String> {
    table.iter_mut().try_for_each(|(_, value)| expand_value(value.get_mut(), made))
}

fn expand_value(value: &mut DeValue<'_>, made: &mut usize) -> Result<(), String> {
    match value {
        DeValue::Table(table) => expand_table(table, made),
        DeValue::Array(array) => {
            let mut expanded = DeArray::new();
            for element in std::mem::replace(array, DeArray::new()) {
                let (repeated, names) = repeat_element(element)?;
                *made += if repeated.len() > 1 { repeated.len() } else { 0 };
                if *made > MAX_ELEMENTS {
                    return Err(format!("`{KEY}` makes more than {MAX_ELEMENTS} elements; list fewer values"));
                }
                for mut element in repeated {
                    expand_value(element.get_mut(), made)?;
                    if !names.is_empty() {
                        // Those of elements within it have been replaced as well.
                        check_placeholders(element.get_ref(), &names)?;
                    }
                    expanded.push(element);
                }
            }
            *array = expanded;
            Ok(())
        }
        _ => Ok(()),
    }
}

/// One for each combination of the values that it lists, and the names of these; itself where it lists none.
fn repeat_element<'a>(mut element: Element<'a>) -> Result<(Vec<Element<'a>>, Vec<String>), String> {
    let DeValue::Table(table) = element.get_mut() else { return Ok((vec![element], Vec::new())) };
    let Some(each) = table.remove(KEY) else { return Ok((vec![element], Vec::new())) };
    let axes = read_axes(each.get_ref())?;
    let combinations = axes.iter().fold(1_usize, |product, (_, values)| product.saturating_mul(values.len()));
    if combinations > MAX_ELEMENTS {
        return Err(format!("`{KEY}` has {combinations} combinations; the maximum is {MAX_ELEMENTS}"));
    }
    let mut elements = vec![element];
    let names = axes.iter().map(|(name, _)| name.clone()).collect();
    for (name, values) in axes {
        let placeholder = format!("{{{name}}}");
        let with_each = |element: Element<'a>| {
            let with = |text: &String| {
                let mut element = element.clone();
                replace_text(element.get_mut(), &placeholder, text);
                element
            };
            values.iter().map(with).collect::<Vec<_>>()
        };
        elements = elements.into_iter().flat_map(with_each).collect();
    }
    Ok((elements, names))
}

fn read_axes(each: &DeValue<'_>) -> Result<Vec<(String, Vec<String>)>, String> {
    let wrong = || format!("`{KEY}` must have lists of texts, such as {{ loss = [\"0%\", \"1%\"] }}");
    let texts = |values: &Element<'_>| {
        let texts = values.get_ref().as_array()?.iter().map(|value| value.get_ref().as_str().map(str::to_owned));
        texts.collect::<Option<Vec<_>>>()
    };
    let axes = each.as_table().ok_or_else(wrong)?.iter();
    axes.map(|(name, values)| Ok((name.get_ref().to_string(), texts(values).ok_or_else(wrong)?))).collect()
}

fn replace_text(value: &mut DeValue<'_>, placeholder: &str, by: &str) {
    match value {
        DeValue::String(text) if text.contains(placeholder) => *text = Cow::Owned(text.replace(placeholder, by)),
        DeValue::Array(array) => array.iter_mut().for_each(|value| replace_text(value.get_mut(), placeholder, by)),
        DeValue::Table(table) => table.iter_mut().for_each(|(_, value)| replace_text(value.get_mut(), placeholder, by)),
        _ => {}
    }
}

/// Refuses what is left of the form `{name}`: a misspelt name.
fn check_placeholders(value: &DeValue<'_>, names: &[String]) -> Result<(), String> {
    match value {
        DeValue::String(text) => placeholders(text).next().map_or(Ok(()), |left| {
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            Err(format!("`{{{left}}}` in `{text}` is not a key of its `{KEY}`: {}", advice_for(left, &names, "keys")))
        }),
        DeValue::Array(array) => array.iter().try_for_each(|value| check_placeholders(value.get_ref(), names)),
        DeValue::Table(table) => table.values().try_for_each(|value| check_placeholders(value.get_ref(), names)),
        _ => Ok(()),
    }
}

fn placeholders(text: &str) -> impl Iterator<Item = &str> {
    let is_name = |name: &&str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    text.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0)).filter(is_name)
}

/// Refuses cases of the same label, whose figures would be put together.
///
/// # Errors
/// Names the label.
pub(super) fn check_labels(document: &DeTable<'_>) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    let text = |case: &Element<'_>, key: &str| Some(case.get_ref().get(key)?.get_ref().as_str()?.to_owned());
    let cases = CASE_KEYS.iter().filter_map(|key| document.get(*key)?.get_ref().as_array());
    // Rows of some kinds also have the version of IP.
    let mut labels = cases.flatten().filter_map(|case| Some((text(case, "label")?, text(case, "version"))));
    labels.find(|label| !seen.insert(label.clone())).map_or(Ok(()), |(label, _)| {
        Err(format!(
            "two of its cases have the label `{label}`, so that their figures would be put together; name them apart"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(text: &str) -> Result<Vec<String>, String> {
        let mut document = DeTable::parse(text).unwrap();
        expand_elements(document.get_mut())?;
        let cases = document.get_ref().get("cases").unwrap().get_ref().as_array().unwrap().clone();
        Ok(cases
            .iter()
            .map(|case| case.get_ref().get("label").unwrap().get_ref().as_str().unwrap().to_owned())
            .collect())
    }

    #[test]
    fn an_element_stands_for_each_combination_of_its_values() {
        let text = "[[cases]]\nlabel = \"{b}, {a}\"\neach = { b = [\"x\", \"y\"], a = [\"1\", \"2\"] }\n\
                    [[cases]]\nlabel = \"{b} alone\"\n";
        assert_eq!(labels(text).unwrap(), ["x, 1", "y, 1", "x, 2", "y, 2", "{b} alone"]);
    }

    /// It was taken literally, so that all cases had one name.
    #[test]
    fn a_misspelt_placeholder_is_refused() {
        let error = labels("[[cases]]\nlabel = \"{los} loss\"\neach = { loss = [\"0\", \"1\"] }\n").unwrap_err();
        let expected = "`{los}` in `{los} loss` is not a key of its `each`: perhaps you mean `loss`; the keys are loss";
        assert_eq!(error, expected);
        let inner = "[[cases]]\nlabel = \"{a}\"\neach = { a = [\"1\", \"2\"] }\ninner = [{ x = \"{a} {b}\", each = { b = [\"3\"] } }]\n";
        assert_eq!(labels(inner).unwrap(), ["1", "2"]);
    }

    #[test]
    fn cases_of_the_same_label_are_refused() {
        let check = |text: &str| check_labels(DeTable::parse(text).unwrap().get_ref());
        let error = check("[[cases]]\nlabel = \"a\"\n[[cases]]\nlabel = \"a\"\n").unwrap_err();
        assert!(error.contains("have the label `a`"), "{error}");
        let contention = check("[[contention]]\nlabel = \"a\"\n[[contention]]\nlabel = \"a\"\n").unwrap_err();
        assert_eq!(contention, error);
        assert_eq!(check("[[cases]]\nlabel = \"a\"\n[[cases]]\nlabel = \"b\"\n[[cases]]\n[[cases]]\n"), Ok(()));
        let versions = "[[cases]]\nlabel = \"a\"\nversion = \"ipv4\"\n[[cases]]\nlabel = \"a\"\nversion = \"ipv6\"\n";
        assert_eq!(check(versions), Ok(()));
    }

    #[test]
    fn what_lists_no_texts_or_too_many_is_refused() {
        for each in ["1", "{ a = 1 }", "{ a = [1] }"] {
            let error = labels(&format!("[[cases]]\nlabel = \"\"\neach = {each}\n")).unwrap_err();
            assert!(error.contains("lists of texts"), "{error}");
        }
        let many = format!("[{}]", "\"x\",".repeat(101));
        let error = labels(&format!("[[cases]]\nlabel = \"\"\neach = {{ a = {many}, b = {many} }}\n")).unwrap_err();
        assert!(error.contains("10201 combinations"), "{error}");
        let inner = format!("inner = [{{ each = {{ b = {many} }} }}]");
        let error = labels(&format!("[[cases]]\nlabel = \"\"\neach = {{ a = {many} }}\n{inner}\n")).unwrap_err();
        assert!(error.contains("more than 10000 elements"), "{error}");
    }
}
