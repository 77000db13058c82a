use std::collections::BTreeMap;

/// Text in rows and columns.
pub(crate) struct Table {
    /// What it shows, with units.
    pub(crate) caption: String,
    /// One heading for each column.
    pub(crate) columns: Vec<String>,
    /// As many cells as columns.
    pub(crate) rows: Vec<Vec<String>>,
}

/// A column of items: its heading, and what stands there.
pub(crate) type Column<'a, T> = (&'a str, &'a dyn Fn(&T) -> String);

impl Table {
    /// A line for each item.
    pub(crate) fn from_items<'i, T: 'i>(
        caption: &str,
        items: impl IntoIterator<Item = &'i T>,
        columns: &[Column<'_, T>],
    ) -> Self {
        let row = |item| columns.iter().map(|(_, cell)| cell(item)).collect();
        Table {
            caption: caption.to_owned(),
            columns: columns.iter().map(|(heading, _)| (*heading).to_owned()).collect(),
            rows: items.into_iter().map(row).collect(),
        }
    }

    /// A line for each item and each word that it counts, behind these columns: how often, and the word.
    pub(crate) fn of_counts<T>(
        caption: &str,
        items: &[T],
        columns: &[Column<'_, T>],
        headings: [&str; 2],
        counts: fn(&T) -> &BTreeMap<String, usize>,
    ) -> Self {
        let pairs = items.iter().flat_map(|item| counts(item).iter().map(move |count| (item, count)));
        let row = |(item, (word, count)): (&T, (&String, &usize))| {
            columns.iter().map(|(_, cell)| cell(item)).chain([count.to_string(), word.clone()]).collect()
        };
        let names = columns.iter().map(|(heading, _)| *heading).chain(headings);
        Table {
            caption: caption.to_owned(),
            columns: names.map(str::to_owned).collect(),
            rows: pairs.map(row).collect(),
        }
    }

    /// A line for each of `rows`, a column for each of `columns`; a cell that there is not has a dash.
    pub(crate) fn matrix(
        caption: &str,
        heading: &str,
        [rows, columns]: [&[&str]; 2],
        cell: &dyn Fn(&str, &str) -> Option<String>,
    ) -> Self {
        let row = |row: &&str| {
            let cells = columns.iter().map(|column| cell(row, column).unwrap_or_else(|| "–".into()));
            std::iter::once((*row).to_owned()).chain(cells).collect()
        };
        let headings = std::iter::once(&heading).chain(columns);
        Table {
            caption: caption.to_owned(),
            columns: headings.map(|heading| (*heading).to_owned()).collect(),
            rows: rows.iter().map(row).collect(),
        }
    }

    /// Says what `±` is, where a cell has it; returns whether one has.
    pub(crate) fn explain_margins(&mut self) -> bool {
        let has_margins = self.rows.iter().flatten().any(|cell| cell.contains('±'));
        if has_margins {
            self.caption += "; ± is half of the 95 % interval of a mean over the runs";
        }
        has_margins
    }

    /// Whether that column holds words, which are aligned left, and not numbers. Names of cases may begin with a number.
    pub(crate) fn is_text_column(&self, column: &usize) -> bool {
        self.columns[*column] == "case"
            || self.rows.iter().all(|row| row[*column].starts_with(|c: char| c.is_ascii_alphabetic()))
    }
}
