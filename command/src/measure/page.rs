//! Pages of reports: a single file of HTML, in the reader's colour scheme. Text is escaped here.

const STYLE: &str = "body{font:16px/1.5 sans-serif;max-width:1080px;margin:2em auto;padding:0 1em;color:#222;\
    background:#fff}table{border-collapse:collapse;margin:1em 0}td,th{padding:.2em .7em;border-bottom:1px solid #ddd;\
    text-align:left}th{vertical-align:top}.figures{font-size:14px}.figures td,.figures th{padding:.15em .45em;\
    text-align:right}.figures td:first-child{text-align:left}.bad{color:#a00;font-weight:bold}\
    svg{max-width:100%;height:auto}@media (prefers-color-scheme: dark){body{color:#ddd;background:#181818}\
    td,th{border-color:#444}.bad{color:#f77}a{color:#8bf}}";

/// A page under construction.
pub struct Page(String);

impl Page {
    /// A page with a heading.
    pub fn new(title: &str) -> Self {
        let title = escaped(title);
        Self(format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"color-scheme\" content=\"light dark\"><title>{title}</title>\n\
             <style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n"
        ))
    }

    /// Adds a section's heading.
    pub fn section(&mut self, heading: &str) {
        self.0 += &format!("<h2>{}</h2>\n", escaped(heading));
    }

    /// Adds a paragraph of HTML.
    pub fn paragraph(&mut self, html: &str) {
        self.0 += &format!("<p>{html}</p>\n");
    }

    /// Adds a warning, which stands out.
    pub fn warning(&mut self, text: &str) {
        self.0 += &format!("<p class=\"bad\">{}</p>\n", escaped(text));
    }

    /// Adds a list of items in HTML.
    pub fn list(&mut self, items: impl IntoIterator<Item = String>) {
        let items: String = items.into_iter().map(|item| format!("<li>{item}</li>\n")).collect();
        self.0 += &format!("<ul>\n{items}</ul>\n");
    }

    /// Adds plots, one after the other.
    pub fn plots<'a>(&mut self, svgs: impl IntoIterator<Item = &'a str>) {
        svgs.into_iter().for_each(|svg| self.0 += &format!("{svg}\n"));
    }

    /// Adds a table.
    pub fn table(&mut self, table: &Table) {
        let class = if table.figures { " class=\"figures\"" } else { "" };
        self.0 += &format!("<table{class}>{}</table>\n", table.rows);
    }

    /// The whole page.
    pub fn end(self) -> String {
        self.0 + "</body></html>\n"
    }
}

/// A table, of figures or of words.
pub struct Table {
    figures: bool,
    rows: String,
}

impl Table {
    /// A table of figures, whose columns but the first are aligned right.
    pub fn of_figures() -> Self {
        Self { figures: true, rows: String::new() }
    }

    /// A table of words.
    pub fn of_words() -> Self {
        Self { figures: false, rows: String::new() }
    }

    /// A table of names with their values.
    pub fn of_pairs(pairs: Vec<(&str, String)>) -> Self {
        let mut table = Self::of_words();
        pairs.into_iter().for_each(|(name, value)| table.row([Cell::from(name).heading(), value.into()]));
        table
    }

    /// Adds a row of headings.
    pub fn head<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        self.row(cells.into_iter().map(|cell| cell.into().heading()));
    }

    /// Adds a row.
    pub fn row<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        let cells: String = cells.into_iter().map(|cell| cell.into().html()).collect();
        self.rows += &format!("<tr>{cells}</tr>\n");
    }
}

/// A cell of a table: text.
pub struct Cell {
    text: String,
    heading: bool,
    bad: bool,
    columns: usize,
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.into(), heading: false, bad: false, columns: 1 }
    }
}

impl Cell {
    /// The cell as a heading.
    pub fn heading(self) -> Self {
        Self { heading: true, ..self }
    }

    /// The cell as a warning, which stands out.
    pub fn bad(self) -> Self {
        Self { bad: true, ..self }
    }

    /// The cell over several columns.
    pub fn over(self, columns: usize) -> Self {
        Self { columns, ..self }
    }

    fn html(&self) -> String {
        let (tag, text) = (if self.heading { "th" } else { "td" }, escaped(&self.text));
        let text = if self.bad { format!("<span class=\"bad\">{text}</span>") } else { text };
        let columns = if self.columns > 1 { format!(" colspan=\"{}\"", self.columns) } else { String::new() };
        format!("<{tag}{columns}>{text}</{tag}>")
    }
}

/// Text as it is written in a page.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_can_not_be_taken_for_markup() {
        let mut page = Page::new("a < b & c");
        page.section("1 > 0");
        page.warning("<p>");
        let mut table = Table::of_figures();
        table.head([Cell::from("P").over(2)]);
        table.row([Cell::from("<NO>").bad(), "&".into()]);
        page.table(&table);
        page.table(&Table::of_pairs(vec![("name", "v<alue".into())]));
        let page = page.end();
        let (_, body) = page.split_once("<body>\n").expect("a body");
        let expected = "<h1>a &lt; b &amp; c</h1>\n<h2>1 &gt; 0</h2>\n<p class=\"bad\">&lt;p&gt;</p>\n\
            <table class=\"figures\"><tr><th colspan=\"2\">P</th></tr>\n\
            <tr><td><span class=\"bad\">&lt;NO&gt;</span></td><td>&amp;</td></tr>\n</table>\n\
            <table><tr><th>name</th><td>v&lt;alue</td></tr>\n</table>\n</body></html>\n";
        assert_eq!(body, expected);
    }
}
