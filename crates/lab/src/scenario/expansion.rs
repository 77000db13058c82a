//! Elements of a scenario file's lists that stand for several: `each = { loss = ["0%", "1%"] }` in a table repeats it for each value, which
//! replaces `{loss}` in the table's texts. Several names give each combination of their values, the last name's values changing first; names
//! are in alphabetical order.

use std::borrow::Cow;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

const KEY: &str = "each";
/// More elements than any experiment needs, and few enough for any machine.
const MAX_ELEMENTS: usize = 10_000;

type Element<'a> = Spanned<DeValue<'a>>;

/// Repeats the elements of all lists in the table that ask for it.
///
/// # Errors
/// What such an element lists is no list of texts, or there are too many combinations.
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
                let repeated = repeat_element(element)?;
                *made += if repeated.len() > 1 { repeated.len() } else { 0 };
                if *made > MAX_ELEMENTS {
                    return Err(format!("`{KEY}` makes more than {MAX_ELEMENTS} elements; list fewer values"));
                }
                for mut element in repeated {
                    expand_value(element.get_mut(), made)?;
                    expanded.push(element);
                }
            }
            *array = expanded;
            Ok(())
        }
        _ => Ok(()),
    }
}

/// One for each combination of the values that it lists; itself where it lists none.
fn repeat_element<'a>(mut element: Element<'a>) -> Result<Vec<Element<'a>>, String> {
    let DeValue::Table(table) = element.get_mut() else { return Ok(vec![element]) };
    let Some(each) = table.remove(KEY) else { return Ok(vec![element]) };
    let axes = read_axes(each.get_ref())?;
    let combinations = axes.iter().fold(1_usize, |product, (_, values)| product.saturating_mul(values.len()));
    if combinations > MAX_ELEMENTS {
        return Err(format!("`{KEY}` has {combinations} combinations; the maximum is {MAX_ELEMENTS}"));
    }
    let mut elements = vec![element];
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
    Ok(elements)
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
