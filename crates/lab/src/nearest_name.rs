//! The valid name that a misspelt one most likely stands for.

/// Names are taken to be misspelt ones from here on, by Jaro and Winkler.
const MIN_SIMILARITY: f64 = 0.75;

/// Of these, the one most like the `wrong` one; none where none is like it.
pub(crate) fn nearest_of<'a>(wrong: &str, valid: &[&'a str]) -> Option<&'a str> {
    let similarity = |name: &str| strsim::jaro_winkler(name, wrong);
    let nearest = valid.iter().max_by(|one, other| similarity(one).total_cmp(&similarity(other)));
    nearest.copied().filter(|name| similarity(name) > MIN_SIMILARITY)
}

/// Of the names of which an error says to choose one, that which is most like the one in backticks that it is about;
/// none where the error has it.
pub fn nearest_choice(message: &str) -> Option<&str> {
    if message.contains("nearest is") {
        return None;
    }
    let wrong = message.split('`').nth(1)?;
    let (_, names) = message.split_once("choose one of ")?;
    nearest_of(wrong, &names.split(", ").collect::<Vec<_>>())
}

/// What to write instead of the `wrong` one: the nearest of these, and which `things` there are.
pub(crate) fn advice_for(wrong: &str, valid: &[&str], things: &str) -> String {
    let nearest = nearest_of(wrong, valid).map_or_else(String::new, |name| format!("perhaps you mean `{name}`; "));
    format!("{nearest}the {things} are {}", valid.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_estimate::MethodSettings;

    #[test]
    fn a_misspelt_choice_has_a_nearest() {
        let nearest = |text: &str| {
            let error = text.parse::<MethodSettings>().unwrap_err().to_string();
            nearest_choice(&error).map(str::to_owned)
        };
        assert_eq!(nearest("pathlod").as_deref(), Some("pathload"));
        assert_eq!(nearest("xyz"), None);
        assert_eq!(nearest_choice("no such thing"), None);
        assert_eq!(nearest_choice("`a` is none; nearest is `ab`; choose one of ab, cd"), None);
    }
}
