//! `maniple weak-scaling` from outside: the results in its files are computed again from the samples.

use crate::common::without_reader;
use serde_json::Value;
use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const COMMAND: &str = crate::MANIPLE;

fn run(args: &str, report: Option<&Path>) -> Output {
    let mut command = Command::new(COMMAND);
    command.arg("weak-scaling").args(args.split(' '));
    if let Some(report) = report {
        command.arg("--report").arg(report);
    }
    command.output().expect("starts")
}

/// The standard output of a command that must succeed and leave stderr alone: a progress bar is for terminals.
fn succeeds(args: &str, report: Option<&Path>) -> String {
    let output = run(args, report);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!((output.status.code(), &*err), (Some(0), ""), "{args}: {out}");
    out.into_owned()
}

/// A directory that does not exist, for each test one of its own.
fn new_directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("weak-scaling-{}", std::process::id())).join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
    path
}

fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path.as_ref()).unwrap_or_else(|e| panic!("{}: {e}", path.as_ref().display()))
}

/// Lines of CSV by the names in the header.
fn csv(text: &str) -> Vec<HashMap<&str, &str>> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().expect("a header").split(',').collect();
    lines
        .map(|line| {
            assert_eq!(line.split(',').count(), names.len(), "{line}");
            names.iter().copied().zip(line.split(',')).collect()
        })
        .collect()
}

/// Minimum, median, maximum and number dropped, with quartiles at every (n - 1)-th of 4(n - 1) + 1 equidistant places.
fn spread(samples: &[f64]) -> (f64, f64, f64, usize) {
    let mut sorted = samples.to_vec();
    sorted.sort_by(|a, b| a.partial_cmp(b).expect("numbers"));
    let along = |list: &[f64], k: usize| {
        let (i, part) = (k / 4, (k % 4) as f64 / 4.0);
        if part == 0.0 { list[i] } else { (1.0 - part) * list[i] + part * list[i + 1] }
    };
    let (q1, q3) = (along(&sorted, sorted.len() - 1), along(&sorted, 3 * (sorted.len() - 1)));
    // Rounding may differ where a sample is on the fence, where it stays.
    let near = 1e-11 * q3;
    let inside = |x: &&f64| **x >= 4.0 * q1 - 3.0 * q3 - near && **x <= 4.0 * q3 - 3.0 * q1 + near;
    let kept: Vec<f64> = sorted.iter().filter(inside).copied().collect();
    (kept[0], along(&kept, 2 * (kept.len() - 1)), kept[kept.len() - 1], sorted.len() - kept.len())
}

fn same(found: f64, expected: f64, what: &str) {
    assert!((found - expected).abs() <= 1e-12 * expected.abs(), "{what}: {found}, not {expected}");
}

#[test]
fn the_summary_follows_from_the_samples() {
    for collective in ["recursive-doubling", "two-level"] {
        let directory = new_directory(collective);
        let args =
            format!("--collective {collective} --shards 1,2..4,7 --cells 20 --iterations 9 --warmup 2 --repeat 5");
        let out = succeeds(&format!("{args} --workers 2 --format csv"), Some(&directory));
        assert_eq!(out, text(directory.join("summary.csv")), "stdout and the file are the same");

        let samples = text(directory.join("samples.csv"));
        let samples = csv(&samples);
        assert_eq!(samples.len(), 4 * 2 * 5 * 9);
        let counted = |version: &str, shards: &str, run: Option<usize>, column: &str| -> Vec<f64> {
            let rows = samples.iter().filter(|s| s["version"] == version && s["shards"] == shards);
            let rows = rows.filter(|s| run.is_none_or(|run| s["run"] == run.to_string()));
            let number = |s: &HashMap<&str, &str>, name: &str| s[name].parse::<f64>().expect("a number");
            // With two workers, of four and seven shards the iterations 2 and 3, 4 and 5, 6 and 7 count together.
            let (mut single, mut pairs) = (Vec::new(), HashMap::<_, f64>::new());
            for s in rows {
                match (s["iteration"].parse::<usize>().expect("a number"), shards) {
                    (0 | 1, _) | (8, "4" | "7") => {}
                    (_, "1" | "2") => single.push(number(s, column)),
                    (i, _) => *pairs.entry((s["run"], i / 2)).or_default() += number(s, column) / 2.0,
                }
            }
            single.extend(pairs.into_values());
            single
        };
        assert!(samples.iter().all(|s| s["verified"] == "true"));
        assert!(samples.iter().all(|s| (s["warmup"] == "true") == ["0", "1"].contains(&s["iteration"])));

        let summary = csv(&out);
        let json: Value = serde_json::from_str(&text(directory.join("summary.json"))).expect("JSON");
        assert_eq!((json["complete"].as_bool(), json["points"].as_array().map(Vec::len)), (Some(true), Some(4)));
        for (i, (shards, row)) in ["1", "2", "4", "7"].into_iter().zip(&summary).enumerate() {
            assert_eq!((row["shards"], row["verified"], row["collective"]), (shards, "true", collective));
            let middle = |version, run| middle_of(&counted(version, shards, Some(run), "iteration_us"));
            let ratios: Vec<f64> = (0..5).map(|run| middle("aggregation", run) / middle(collective, run)).collect();
            for (metric, samples) in [
                ("collective_us", counted(collective, shards, None, "collective_us")),
                ("iteration_us", counted(collective, shards, None, "iteration_us")),
                ("baseline_us", counted("aggregation", shards, None, "iteration_us")),
                ("ratio", ratios),
            ] {
                let each = if i < 2 { 35 } else { 15 };
                assert_eq!(samples.len(), if metric == "ratio" { 5 } else { each });
                let (min, median, max, dropped) = spread(&samples);
                for (name, expected) in [("min", min), ("median", median), ("max", max)] {
                    let name = format!("{metric}_{name}");
                    same(row[&*name].parse().expect("a number"), expected, &name);
                    same(json["points"][i][&*name].as_f64().expect("a number"), expected, &name);
                }
                let name = format!("{}_dropped", metric.trim_end_matches("_us"));
                assert_eq!(row[&*name], dropped.to_string(), "{name}");
                let name = format!("{}_kept", metric.trim_end_matches("_us"));
                assert_eq!(row[&*name], (samples.len() - dropped).to_string(), "{name}");
            }
        }

        // Both files hold the same samples, and versions take turns at going first.
        let mut again = String::from("shards,version,run,iteration,verified,warmup,iteration_us,collective_us\n");
        let mut order = Vec::new();
        for line in text(directory.join("samples.jsonl")).lines() {
            let run: Value = serde_json::from_str(line).expect("JSON");
            let word = |name: &str| run[name].to_string().replace('"', "");
            order.push(word("version"));
            let times = |name: &str| run[name].as_array().expect("times").clone();
            for (i, (iteration, collective)) in times("iteration_us").iter().zip(times("collective_us")).enumerate() {
                let (shards, version, number) = (word("shards"), word("version"), word("run"));
                again += &format!("{shards},{version},{number},{i},true,{},{iteration},{collective}\n", i < 2);
            }
        }
        assert_eq!(again, text(directory.join("samples.csv")));
        assert_eq!(order[..4], [collective, "aggregation", "aggregation", collective]);

        let parameters: Value = serde_json::from_str(&text(directory.join("parameters.json"))).expect("JSON");
        assert_eq!((&parameters["shards"], &parameters["warmup"]), (&serde_json::json!([1, 2, 4, 7]), &2.into()));
        let environment: Value = serde_json::from_str(&text(directory.join("machine.json"))).expect("JSON");
        assert!(environment["toolchain"]["rustc"].as_str().is_some_and(|v| v.starts_with("rustc 1.")));
        assert!(environment["machine"]["system"].as_str().is_some_and(|v| v.contains(std::env::consts::ARCH)));
        assert!(
            fs::read_dir(&directory).expect("there").all(|f| !f
                .unwrap()
                .file_name()
                .display()
                .to_string()
                .starts_with('.'))
        );

        // With two workers the model of shards with a processor each goes through the point of two shards.
        let fit = json["fits"].as_array().expect("fits").iter().find(|f| f["model"] == "T = α′·log₂P").expect("a fit");
        same(fit["alpha_us"].as_f64().unwrap(), json["points"][1]["collective_us_median"].as_f64().unwrap(), "α′");
    }
}

/// The median of all samples.
fn middle_of(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(|a, b| a.partial_cmp(b).expect("numbers"));
    (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2.0
}

/// The texts between the tags of a document that must be well formed, and how often each tag opens.
fn parse_xml(document: &str) -> (Vec<String>, HashMap<String, usize>) {
    let (mut texts, mut open, mut count, mut rest) = (Vec::new(), Vec::new(), HashMap::new(), document);
    while let Some((text, after)) = rest.split_once('<') {
        let text = text.trim();
        assert!(text.is_empty() || !open.is_empty(), "text outside of all elements: {text}");
        assert!(!text.contains('>') && text.split('&').skip(1).all(|e| e.contains(';')), "{text}");
        if !text.is_empty() {
            texts.push(text.to_owned());
        }
        let (tag, after) = after.split_once('>').expect("a tag that ends");
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name));
        } else if !tag.starts_with(['?', '!']) {
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            let name = tag.split([' ', '/', '\n']).next().expect("a name").to_owned();
            *count.entry(name.clone()).or_default() += 1;
            if !tag.ends_with('/') {
                open.push(name);
            }
        }
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "{open:?} left open, {rest}");
    (texts, count)
}

#[test]
fn plots_are_well_formed_and_labelled() {
    let directory = new_directory("plots");
    succeeds("--shards 1,2,4,8,16 --cells 8 --iterations 5 --repeat 3 --workers 2", Some(&directory));
    let page = text(directory.join("index.html"));
    for (name, labels, markers) in [
        ("collective.svg", &["time (µs)", "shards P", "T = α′·log₂P, α′ = ", "T = P/W·(α′·log₂P + κ)", "4096"][..], 6),
        ("metrics.svg", &["time (µs)", "shards P", "one iteration of the baseline, aggregation", "2", "16"], 6),
        ("ratio.svg", &["ratio", "shards P", "iteration of the baseline ÷ iteration"], 6),
    ] {
        let svg = text(directory.join(name));
        let (texts, count) = parse_xml(&svg);
        for label in labels {
            assert!(texts.iter().any(|text| text.starts_with(label)), "{name}: {label} in {texts:?}");
        }
        // One at each median and one in the legend.
        assert_eq!(count["circle"], markers, "{name}");
        assert!(page.contains(&svg), "{name} is in the page");
    }
    assert!(text(directory.join("collective.svg")).contains("extrapolated to P = 4096"));
    for words in ["All 30 runs were verified.", "load average", "Tukey's outer fences", "rustc 1.", "yardstick e"] {
        assert!(page.contains(words), "{words} in {page}");
    }
    assert!(!page.contains("Not complete"));
    // The body of the page is XML as well.
    parse_xml(&page[page.find("<body>").expect("a body")..page.find("</html>").expect("an end")]);
}

#[test]
fn a_single_point_is_enough() {
    for shards in ["1", "2", "4"] {
        let directory = new_directory(&format!("single-{shards}"));
        let out =
            succeeds(&format!("--shards {shards} --cells 8 --iterations 1 --repeat 1 --workers 2"), Some(&directory));
        assert!(out.contains("yes") && out.ends_with("index.html\n"), "{out}");
        for name in ["collective.svg", "metrics.svg", "ratio.svg"] {
            parse_xml(&text(directory.join(name)));
        }
    }
}

#[test]
fn a_table_has_a_row_for_each_number_of_shards() {
    let out = succeeds("--shards 1..8 --cells 8 --iterations 4 --repeat 2 --workers 2", None);
    let rows: Vec<Vec<&str>> = out.lines().map(|line| line.split('|').map(str::trim).collect()).collect();
    let rows: Vec<_> = rows.iter().filter(|row| row.get(1) == Some(&"yes")).collect();
    assert_eq!(rows.iter().map(|row| row[0]).collect::<Vec<_>>(), ["1", "2", "4", "8"]);
    assert!(rows.iter().all(|row| row.len() == 15 && row[2..14].iter().all(|x| x.parse::<f64>().is_ok())), "{out}");
    for words in ["recursive-doubling against aggregation", "2 runs of 3 iterations", "T = α′·log₂P", "Tukey's"] {
        assert!(out.contains(words), "{words} in {out}");
    }
}

#[test]
fn a_directory_with_something_in_it_is_left_alone() {
    let directory = new_directory("taken");
    fs::create_dir_all(&directory).expect("made");
    fs::write(directory.join("summary.csv"), "old").expect("written");
    // With this many iterations a run before the check would not end.
    let refused = |path: &Path| {
        let output = run("--iterations 10000000", Some(path));
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let expected = "expected a new or an empty directory for the report, found `summary.csv` in it; name another one";
    assert_eq!(refused(&directory), format!("maniple: error: {}: {expected}\n", directory.display()));
    assert_eq!(fs::read_dir(&directory).expect("there").count(), 1);
    assert_eq!(text(directory.join("summary.csv")), "old");
    let file = directory.join("summary.csv");
    assert_eq!(
        refused(&file),
        format!("maniple: error: {}: can't be written: Not a directory (os error 20)\n", file.display())
    );

    let empty = new_directory("empty");
    fs::create_dir_all(&empty).expect("made");
    succeeds("--shards 1 --cells 8 --iterations 1 --repeat 1", Some(&empty));
    assert!(refused(&empty).contains("expected a new or an empty directory"));
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (args, words) in [
        ("--shards 1,1", "found 1 twice"),
        ("--shards 4,2", "found 2 after 4"),
        ("--shards 0,1", "expected at least 1, found 0"),
        ("--shards -1", "a whole number, such as 16 or 1e3, found `-1`"),
        ("--shards 1,two", "a whole number, such as 16 or 1e3, found `two`"),
        ("--shards 1,,2", "found an empty text in place of one"),
        ("--shards ", "found an empty text in place of one"),
        ("--shards 1,4294967296", "at most 4294967295 shards, found 4294967296"),
        ("--shards 1,4294967295", "of memory, and "),
        ("--shards 1..1e30", "a number up to"),
        ("--collective aggregation", "aggregation is the baseline; expected one of recursive-doubling, two-level"),
        ("--collective ring", "unknown collective `ring`; expected one of recursive-doubling, two-level\n"),
        ("--cells 3", "at least 4 cells in a shard, found 3"),
        ("--repeat 0", "--repeat: expected at least 1, found 0"),
        ("--iterations 0", "--iterations: expected at least 1, found 0"),
        ("--workers 0", "--workers: expected at least 1, found 0"),
        ("--workers 9999", "at most 1024 workers, found 9999"),
        ("--warmup 20", "--warmup: expected fewer than 20 iterations, found 20"),
        ("--format xml", "[possible values: table, json, csv]"),
    ] {
        let directory = new_directory("refused");
        let output = run(args, Some(&directory));
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{args}: {err}");
        assert!(err.starts_with("maniple: error: ") && err.contains(words), "{args}: {err}");
        assert!(!directory.exists(), "{args}");
    }
}

/// A run that is killed can't tidy up. Its results are there all the same, and the page says that they are not complete.
#[test]
#[ignore = "takes long; `./check full` runs it"]
fn an_interrupted_run_leaves_what_it_measured() {
    let directory = new_directory("interrupted");
    let mut child = Command::new(COMMAND)
        .args(["weak-scaling", "--shards", "1,2,4,1000", "--cells", "8", "--iterations", "300", "--repeat", "5"])
        .args(["--workers", "2", "--format", "json", "--report"])
        .arg(&directory)
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    // The second line comes after the report of the first number of shards.
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let points: Vec<Value> =
        lines.take(2).map(|line| serde_json::from_str(&line.expect("a line")).expect("JSON")).collect();
    child.kill().expect("killed");
    child.wait().expect("ended");
    assert_eq!(points[1]["shards"], 2);
    let summary: Value = serde_json::from_str(&text(directory.join("summary.json"))).expect("JSON");
    assert_eq!((summary["complete"].as_bool(), &summary["points"][0]), (Some(false), &points[0]));
    let samples = text(directory.join("samples.csv"));
    let of_two = csv(&samples).iter().filter(|sample| sample["shards"] == "2").count();
    assert_eq!(of_two, 2 * 5 * 300);
    assert!(text(directory.join("index.html")).contains("of 4 numbers of shards were measured"));
    parse_xml(&text(directory.join("collective.svg")));
}

/// Nobody reads the results: no panic, and the report is written before that is said.
#[cfg(unix)]
#[test]
fn a_broken_pipe_is_a_failure_that_spares_the_report() {
    for format in ["json", "csv", "table"] {
        let directory = new_directory(&format!("pipe-{format}"));
        let args = ["--shards", "1,2,4", "--cells", "8", "--repeat", "2", "--format", format, "--report"];
        let output = without_reader(Command::new(COMMAND).arg("weak-scaling").args(args).arg(&directory));
        let said = "maniple: error: can't write to stdout: Broken pipe (os error 32)\n";
        assert_eq!((output.status.code(), &*String::from_utf8_lossy(&output.stderr)), (Some(1), said), "{format}");
        assert_eq!(csv(&text(directory.join("summary.csv"))).len(), 3);
    }
}

#[test]
fn help_defines_what_is_reported() {
    let out = succeeds("--help", None);
    for words in ["--shards <LIST>", "--report <DIR>", "ratio ", "Tukey's outer fences", "samples.jsonl", "Exit codes"]
    {
        assert!(out.contains(words), "{words} in {out}");
    }
}
