/// What is to be said of disturbed and repeated runs, each given as how often it was repeated, and whether its last repetition
/// was disturbed as well.
pub(crate) fn describe_disturbances(runs: impl Iterator<Item = (u32, bool)>) -> Vec<String> {
    let (mut disturbed, mut repeats) = (0, 0);
    for (repeated, is_disturbed) in runs {
        disturbed += u32::from(is_disturbed);
        repeats += repeated;
    }
    let mut notes = Vec::new();
    if disturbed > 0 {
        notes.push(format!(
            "host scheduling delay disturbed every repetition of {disturbed} runs; their figures are unreliable"
        ));
    }
    if repeats > 0 {
        notes.push(format!("{repeats} runs were discarded and repeated, because host scheduling delay disturbed them"));
    }
    notes
}
