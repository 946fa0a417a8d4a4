//! What the pages of reports have in common: one file without anything from elsewhere, in the reader's colour scheme.

const STYLE: &str = "body{font:16px/1.5 sans-serif;max-width:1080px;margin:2em auto;padding:0 1em;color:#222;\
    background:#fff}table{border-collapse:collapse;margin:1em 0}td,th{padding:.2em .7em;border-bottom:1px solid #ddd;\
    text-align:left}th{vertical-align:top}.figures{font-size:14px}.figures td,.figures th{padding:.15em .45em;\
    text-align:right}.figures td:first-child{text-align:left}.bad{color:#a00;font-weight:bold}\
    svg{max-width:100%;height:auto}@media (prefers-color-scheme: dark){body{color:#ddd;background:#181818}\
    td,th{border-color:#444}.bad{color:#f77}a{color:#8bf}}";

/// The beginning of a page, up to its heading.
pub fn head(title: &str) -> String {
    let title = escaped(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>{title}</title>\n\
         <style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n"
    )
}

/// Text as it is written in a page.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
