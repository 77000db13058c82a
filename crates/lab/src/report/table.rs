/// Text in rows and columns.
pub(crate) struct Table {
    /// What it shows, with units.
    pub(crate) caption: String,
    /// One heading for each column.
    pub(crate) columns: Vec<String>,
    /// As many cells as columns.
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    /// Whether that column holds words, which are aligned left, and not numbers. Names of cases may begin with a number.
    pub(crate) fn is_text_column(&self, column: &usize) -> bool {
        self.columns[*column] == "case"
            || self.rows.iter().all(|row| row[*column].starts_with(|c: char| c.is_ascii_alphabetic()))
    }
}
