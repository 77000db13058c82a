//! Texts that are nearly right: a valid one, with edits as bytes tell. For the fuzzers, and for the tests that replay their
//! finds.
#![allow(dead_code, reason = "each check uses its part")]

/// Words that may take another's place in any file: the ends of ranges, and what has a meaning of its own.
const WORDS: &str = "0 1 -1 0.5 1e308 nan inf 9223372036854775807 18446744073709551615 0s 1ns 60s 9999999h 0bit 1bit 5mbit \
    100gbit 0b 1500b 64kb 1gb 100packets 0% 100% 101% unlimited none all true [] \"\" up";
/// Longer texts are not edited any further.
const MAX_WORDS: usize = 20_000;

/// The text, edited: each four bytes are an edit, the place where (two bytes), and its operand.
///
/// - 0 to 2: a word from the list, or from elsewhere in the text, or these bytes take the place of a word.
/// - 3 to 5: a line is removed, doubled or put elsewhere.
/// - 6: a character is inserted.
/// - 7: the text ends.
pub fn edited(text: &str, instructions: &[u8]) -> String {
    let mut words = words(text);
    for &[kind, high, low, operand] in instructions.as_chunks::<4>().0 {
        if words.is_empty() || words.len() > MAX_WORDS {
            break;
        }
        let place = usize::from(u16::from_be_bytes([high, low])) % words.len();
        let line = line_at(&words, place);
        match kind % 8 {
            0 => words[place] = choice(WORDS, operand).to_owned(),
            1 => words[place] = words[(place + usize::from(operand)) % words.len()].clone(),
            2 => words[place] = operand.to_string(),
            3 => drop(words.drain(line)),
            4 => {
                let doubled = words[line.clone()].to_vec();
                words.splice(line.start..line.start, doubled);
            }
            5 => {
                let moved: Vec<_> = words.drain(line).collect();
                let to = usize::from(operand) * words.len() / 256;
                words.splice(to..to, moved);
            }
            6 => words.insert(place, char::from(operand).to_string()),
            _ => words.truncate(place),
        }
    }
    words.concat()
}

/// One of the words with blanks in between.
pub fn choice(words: &str, number: u8) -> &str {
    let count = words.split_whitespace().count();
    words.split_whitespace().nth(usize::from(number) % count).unwrap_or_default()
}

/// The words and what stands between them, each line with its end.
fn words(text: &str) -> Vec<String> {
    let is_part = |c: char| c.is_alphanumeric() || "._-%/".contains(c);
    let mut words: Vec<String> = Vec::new();
    let mut was_part = false;
    for character in text.chars() {
        match words.last_mut() {
            Some(word) if was_part && is_part(character) => word.push(character),
            _ => words.push(character.to_string()),
        }
        was_part = is_part(character);
    }
    words
}

/// The words of the line in which this one is, with its end.
fn line_at(words: &[String], place: usize) -> std::ops::Range<usize> {
    let is_end = |word: &String| word == "\n";
    let start = words[..place].iter().rposition(is_end).map_or(0, |end| end + 1);
    let end = words[place..].iter().position(is_end).map_or(words.len(), |end| place + end + 1);
    start..end
}
