//! Tables in Markdown, as they stand in `docs/performance.md`.

use std::fmt;

/// A table with what has to be said of it.
#[derive(Clone, Debug)]
pub struct Table {
    title: &'static str,
    note: String,
    columns: &'static [&'static str],
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty one.
    pub(crate) fn new(
        title: &'static str,
        note: impl Into<String>,
        columns: &'static [&'static str],
    ) -> Self {
        Self {
            title,
            note: note.into(),
            columns,
            rows: Vec::new(),
        }
    }

    /// Adds a row. What a person should see at once while the rest is measured is printed to standard error.
    pub(crate) fn push<const N: usize>(&mut self, row: [String; N]) {
        assert_eq!(N, self.columns.len(), "a cell for each column");
        eprintln!("{}: {}", self.title, row.join(" | "));
        self.rows.push(row.into());
    }

    /// Each row's cells.
    #[must_use]
    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "### {}\n\n{}\n", self.title, self.note)?;
        writeln!(f, "| {} |", self.columns.join(" | "))?;
        writeln!(f, "|{}", " --- |".repeat(self.columns.len()))?;
        for row in &self.rows {
            writeln!(f, "| {} |", row.join(" | "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_markdown() {
        let mut table = Table::new("Speed", "Measured.", &["side", "records/s"]);
        table.push(["plain".to_owned(), "1".to_owned()]);
        let expected =
            "### Speed\n\nMeasured.\n\n| side | records/s |\n| --- | --- |\n| plain | 1 |\n";
        assert_eq!(table.to_string(), expected);
    }
}
