//! A calibration as a machine file.

use super::calibrator::Calibration;
use maniple_command::measure::environment::Environment;
use maniple_stencil::plural;
use std::fmt::Write;

impl Calibration {
    /// The text of the file. `of` names the machine that was measured, if it was not this host.
    pub fn text(&self, name: &str, of: Option<&str>) -> String {
        let Environment { began: now, machine, .. } = Environment::now();
        let host = || {
            let unknown = || "unknown".to_owned();
            let (cpu, host) = (machine.cpu.unwrap_or_else(unknown), machine.hostname.unwrap_or_else(unknown));
            format!("{host}, {cpu}, {}", machine.system)
        };
        let processors = plural(self.processors as usize, "processor");
        let on = format!("{processors} of {}", of.map_or_else(host, str::to_owned));
        let yardstick = match self.cache_line_ns {
            None => String::new(),
            Some(ns) => {
                let why = "a cache line between two spinning threads, one way; measurements can be compared with this file \
                           where it takes about as long";
                format!("cache_line_ns = {{ value = {ns:.1}, why = {} }}\n", quoted(why))
            }
        };
        let why = "as many workers took part";
        let mut text = format!(
            "# Written by maniple on {}, from programs that repeat a single operation.\n\n\
             name = {}\nabout = {}\n{yardstick}\n[nodes]\ncount = {{ value = 1, why = \"one process\" }}\n\
             processors = {{ value = {}, why = {} }}\nutility = {{ value = 0, why = \"none was set aside\" }}\n\n\
             # Not used: there is one node.\n[network]\n",
            now,
            quoted(name),
            quoted(&on),
            self.processors,
            quoted(why),
        );
        for key in ["latency_ns", "send_ns", "receive_ns", "gap_ns", "byte_ns"] {
            let _ = writeln!(text, "{key} = {{ value = 0, why = \"there is one node\" }}");
        }
        let mut table = "network";
        for price in &self.prices {
            let (of, key) = price.key;
            if of != table {
                let _ = writeln!(text, "\n[{of}]");
                if of == "costs" {
                    let why = "numbers of shards per processor; lists have a value for each, in this order";
                    let _ = writeln!(text, "shards = {{ value = {:?}, why = {} }}", self.levels, quoted(why));
                }
                table = of;
            }
            // Virtual time counts in picoseconds. A byte may take less.
            let digits = if key.ends_with("byte_ns") { 6 } else { 3 };
            let values: Vec<String> = price.values.iter().map(|v| format!("{v:.digits$}")).collect();
            let value = if let [value] = &values[..] { value.clone() } else { format!("[{}]", values.join(", ")) };
            let _ = writeln!(text, "{key} = {{ value = {value}, why = {} }}", quoted(&price.why));
        }
        text += "\n[collectives]\nreplay = { value = true, why = \"rounds are mapped once\" }\n\
                 round_requirements = { value = 2, why = \"counts only without replay\" }\n";
        text
    }
}

/// As a basic string of TOML.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
