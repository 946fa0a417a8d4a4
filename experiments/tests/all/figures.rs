//! `maniple-experiments figures` from outside, on a machine where only messages take time, so that every time is known.

use crate::common::maniple_with as maniple;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The time of a message on that machine.
const LATENCY_US: f64 = 2.0;

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()))
}

/// Makes a report of 16 to `to` shards. Returns its directory and its stdout.
fn figures(name: &str, to: usize) -> (PathBuf, String) {
    let ideal = include_str!("../../../command/machines/ideal.toml");
    let machine = ideal.replacen("latency_ns = { value = 0", "latency_ns = { value = 2000", 1);
    assert_ne!(ideal, machine);
    let (file, directory) = (path(name).with_extension("toml"), path(name));
    fs::write(&file, machine).expect("written");
    let _ = fs::remove_dir_all(&directory);
    let [file, to] = [file.display().to_string(), to.to_string()];
    let directory_name = directory.display().to_string();
    let output = maniple(&[
        "figures",
        "--output",
        &directory_name,
        "--machine",
        &file,
        "--to",
        &to,
        "--draws",
        "2",
        "--repeat",
        "1",
        "--host",
        "local",
    ]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // A second report there would mix with the first.
    let again = maniple(&["figures", "--output", &directory_name, "--machine", &file, "--to", &to]);
    assert_eq!(again.status.code(), Some(2), "{}", String::from_utf8_lossy(&again.stderr));
    // Nor is one begun that can't be ended.
    let new = directory.with_extension("new").display().to_string();
    let large = maniple(&["figures", "--output", &new, "--machine", &file, "--to", "16777216"]);
    let message = String::from_utf8_lossy(&large.stderr).into_owned();
    assert!(large.status.code() == Some(2) && message.contains("16777216 shards: this needs at least"), "{message}");
    assert!(!Path::new(&new).exists());
    (directory, String::from_utf8(output.stdout).expect("text"))
}

/// Lines of CSV by the names in the header.
fn csv(path: &Path) -> Vec<HashMap<String, String>> {
    let text = fs::read_to_string(path).expect("there");
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().expect("a header").split(',').collect();
    let line = |line: &str| names.iter().map(|n| (*n).to_owned()).zip(line.split(',').map(str::to_owned)).collect();
    lines.map(line).collect()
}

fn number(line: &HashMap<String, String>, name: &str) -> f64 {
    line[name].parse().unwrap_or_else(|_| panic!("no number {name}: {line:?}"))
}

#[test]
fn times_are_those_of_the_messages_and_so_are_bands_and_shares() {
    // To one more than the paper has.
    let (directory, said) = figures("times", 1024);
    let points = csv(&directory.join("points.csv"));
    let of = |curve: &str| points.iter().filter(|p| p["curve"] == curve).collect::<Vec<_>>();
    let collective = of("collective_us");
    assert_eq!(collective.len(), 7, "{points:?}");
    for point in collective {
        let shards = number(point, "shards");
        // One message a round, one after the other; the band is of half and twice the only number.
        let us = shards.log2() * LATENCY_US;
        assert!((number(point, "value") / us - 1.0).abs() < 1e-9, "{point:?}");
        if shards > 512.0 {
            assert_eq!(point["low"], "", "{point:?}");
            continue;
        }
        let band = [number(point, "low") / us, number(point, "high") / us];
        assert!((band[0] - 0.5).abs() < 1e-9 && (band[1] - 2.0).abs() < 1e-9, "{point:?}");
    }
    // Iteration and baseline are a whole number of messages, one after the other. The baseline does not get more of them:
    // what grows with the shards takes no time here.
    let messages = |curve: &str| of(curve).iter().map(|p| number(p, "value") / LATENCY_US).collect::<Vec<_>>();
    let (iteration, baseline) = (messages("iteration_us"), messages("baseline_us"));
    assert!(iteration.iter().zip(4..).all(|(m, rounds)| *m >= f64::from(rounds)), "{iteration:?}");
    assert!(baseline.windows(2).all(|two| two[0] == two[1]), "{baseline:?}");

    let shares = csv(&directory.join("shares.csv"));
    // Rounds are replayed, so that the other number counts for nothing.
    let names: Vec<&str> = shares.iter().map(|s| s["number"].as_str()).collect();
    assert_eq!(names, ["collectives.round_requirements", "network.latency_ns"]);
    for name in ["collective_16", "iteration_16", "baseline_16", "collective_512", "iteration_512", "baseline_512"] {
        assert!(number(&shares[0], name).abs() < 1e-9, "{shares:?}");
        assert!((number(&shares[1], name) - 1.0).abs() < 1e-9, "{shares:?}");
    }
    assert!(number(&shares[1], "ratio_512").abs() < 1e-9, "{shares:?}");
    let predictions = csv(&directory.join("predictions.csv"));
    let shards = |program: &str| -> Vec<f64> {
        predictions.iter().filter(|p| p["program"] == program).map(|p| number(p, "shards")).collect()
    };
    for program in ["allreduce", "stencil"] {
        assert_eq!(shards(program), [2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0]);
    }
    for row in &predictions {
        let error = number(row, "predicted_us") / number(row, "measured_us") - 1.0;
        assert!(["true", "false"].contains(&row["disturbed"].as_str()), "{row:?}");
        assert!((number(row, "error") - error).abs() < 1e-9 && number(row, "measured_us") > 0.0, "{row:?}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(directory.join("figures.json")).expect("there")).expect("JSON");
    assert_eq!(json["points"].as_array().map(Vec::len), Some(7));
    assert!(json["slopes"][0].as_f64().is_some_and(|slope| slope.abs() < 1e-9), "{}", json["slopes"]);
    assert!(said.contains("about 75") && said.contains("index.html"), "{said}");

    // One page with all of it.
    let words = ["Figure 4", "Figure 5", "Figure 6", "Figure 8", "about linear", "network.latency_ns"];
    page(&directory, 11, &words);
}

/// Makes a small report of another paper, which takes only some sizes. Returns its directory and its stdout.
fn small(paper: &str, to: &str, refused: [(&str, &str); 2]) -> (PathBuf, String) {
    let directory = path(paper);
    let _ = fs::remove_dir_all(&directory);
    let name = directory.display().to_string();
    let figures = |more: &[&str]| maniple(&[&["figures", "--paper", paper, "--output", &name], more].concat());
    let others = "--machine, --host and --repeat are for --paper founding";
    let refused = refused.map(|(to, expected)| (["--to", to], expected));
    for (refused, expected) in
        refused.into_iter().chain([["--machine", "local"], ["--repeat", "1"]].map(|o| (o, others)))
    {
        let output = figures(&refused);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(expected), "{refused:?}: {said}");
        assert!(!directory.exists());
    }
    let output = figures(&["--to", to, "--draws", "1"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (directory, String::from_utf8(output.stdout).expect("text"))
}

/// The value of a point on a curve, by the fields that tell it from the others.
fn value(points: &[HashMap<String, String>], fields: &[(&str, &str)]) -> f64 {
    let point = points.iter().find(|point| fields.iter().all(|(name, value)| point[*name] == *value));
    number(point.unwrap_or_else(|| panic!("{fields:?}")), "value")
}

/// The page, which needs nothing from elsewhere, has `plots` plots, and has these words.
fn page(directory: &Path, plots: usize, words: &[&str]) -> String {
    let page = fs::read_to_string(directory.join("index.html")).expect("there");
    let elsewhere = page.matches("http").count() - page.matches("xmlns=\"http://www.w3.org/2000/svg\"").count();
    assert_eq!((elsewhere, page.matches("<script").count(), page.matches("<svg").count()), (0, 0, plots), "{page}");
    for word in words {
        assert!(page.contains(word), "no {word}");
    }
    page
}

#[test]
fn dissemination_has_a_page_of_its_own() {
    let refused = [
        ("3", "--to: expected 4 to 512 nodes for this paper, found 3"),
        ("513", "--to: expected 4 to 512 nodes for this paper, found 513"),
    ];
    let (directory, said) = small("dissemination", "4", refused);
    assert!(said.contains("Figure 5: an allreduce of 1 element on FDR") && said.contains("index.html"), "{said}");

    let points = csv(&directory.join("points.csv"));
    let figures = [
        ("gpi-fdr", "barrier"),
        ("gpi-fdr", "allreduce of 1 element"),
        ("gpi-qdr", "barrier"),
        ("gpi-qdr", "allreduce of 1 element"),
        ("gpi-qdr", "allreduce of 255 elements"),
    ];
    for (machine, operation) in figures {
        for nodes in ["2", "4"] {
            let value = |curve: &str| {
                let fields = [("machine", machine), ("operation", operation), ("curve", curve), ("nodes", nodes)];
                value(&points, &fields)
            };
            let each: Vec<f64> = (1..=7).map(|n| value(&format!("n{n}_us"))).collect();
            let best = each.iter().copied().fold(f64::INFINITY, f64::min);
            assert_eq!((value("dissemination_us"), each[value("best_n") as usize - 1]), (best, best));
            assert!((value("gain") - value("mpi_us") / best).abs() < 1e-9);
        }
    }
    let shares = csv(&directory.join("shares.csv"));
    assert!(shares.iter().any(|s| s["number"] == "gpi-qdr-mpi costs.combine_byte_ns"), "{shares:?}");
    let words = ["Figure 2", "Figure 3", "Figure 4", "Figure 5", "larger n pays on FDR", "gpi-fdr network.latency_ns"];
    let page = page(&directory, 7, &words);
    // Its numbers of nodes are larger.
    assert!(!page.contains("infiniband"), "{page}");
}

#[test]
fn aspen_has_a_page_of_its_own() {
    let refused = [
        ("3", "--to: expected 4 to 1048576 elements for this paper, found 3"),
        ("1048577", "--to: expected 4 to 1048576 elements for this paper, found 1048577"),
    ];
    let (directory, said) = small("aspen", "15", refused);
    assert!(said.contains("the paper's program on aspen-gigabit") && said.contains("index.html"), "{said}");

    let points = csv(&directory.join("points.csv"));
    for machine in ["aspen-gigabit", "ethernet"] {
        for workload in ["paper", "reverse", "each"] {
            for bytes in ["8", "32"] {
                let value = |curve: &str| {
                    let fields = [("machine", machine), ("workload", workload), ("curve", curve), ("bytes", bytes)];
                    value(&points, &fields)
                };
                let [one_by_one, concurrent, balanced] = ["one_by_one_us", "concurrent_us", "balanced_us"].map(value);
                assert!(concurrent <= 0.5 * one_by_one && balanced <= 0.5 * one_by_one, "{machine} {workload} {bytes}");
                assert!((value("concurrent_by_one_by_one") - concurrent / one_by_one).abs() < 1e-9);
                assert!((value("balanced_by_concurrent") - balanced / concurrent).abs() < 1e-9);
                // Made one by one, the reductions of the paper are balanced as they are.
                assert_eq!(balanced == concurrent, workload == "paper", "{machine} {workload} {bytes}");
            }
        }
    }
    let shares = csv(&directory.join("shares.csv"));
    assert!(shares.iter().any(|s| s["machine"] == "ethernet" && s["number"] == "costs.replayed_ns"), "{shares:?}");
    let words =
        ["Figure 12", "balancing improves performance by up to 25 %", "bytes of a vector", "network.latency_ns"];
    let page = page(&directory, 10, &words);
    // Its sizes are larger.
    assert!(!page.contains("Concurrent reductions</b> come out"), "{page}");
}

#[test]
fn broadcasts_have_a_page_of_their_own() {
    let refused = [
        ("9", "--to: expected 10 to 200 rows of tiles for this paper, found 9"),
        ("201", "--to: expected 10 to 200 rows of tiles for this paper, found 201"),
    ];
    let (directory, said) = small("broadcasts", "10", refused);
    assert!(
        said.contains("Figure 5, right: a Cholesky factorisation on 100 nodes") && said.contains("index.html"),
        "{said}"
    );

    let sent = csv(&directory.join("broadcasts.csv"));
    let ms = |curve: &str, n: &str| value(&sent, &[("curve", curve), ("recipients", n)]);
    let one = ms("linear_ms", "1");
    // 8 MB at 0.27 ns a byte.
    assert!((2.16..2.17).contains(&one), "{one}");
    for (n, rounds) in [("3", 2.0), ("12", 4.0), ("99", 7.0)] {
        let (messages, rounds) = (n.parse::<f64>().expect("a number") * one, rounds * one);
        assert!((ms("linear_ms", n) / messages - 1.0).abs() < 0.05, "{n}: {sent:?}");
        assert!((ms("binomial_ms", n) / rounds - 1.0).abs() < 0.05, "{n}: {sent:?}");
        assert!((ms("peer_linear_ms", n) / messages - 1.0).abs() < 0.05, "{n}: {sent:?}");
    }
    // The root's messages share its line: k(k+1)/2 messages for k rounds.
    assert!((ms("peer_binomial_ms", "3") / (3.0 * one) - 1.0).abs() < 0.05, "{sent:?}");
    let points = csv(&directory.join("points.csv"));
    for (machine, nodes) in [("plafrim", "16"), ("inti", "64"), ("inti", "100")] {
        let value = |curve: &str| value(&points, &[("machine", machine), ("nodes", nodes), ("curve", curve)]);
        let gain = value("gain_of_the_tree");
        assert!((gain - value("linear_ms") / value("binomial_ms")).abs() < 1e-9 && gain > 1.0, "{points:?}");
    }
    let windows = csv(&directory.join("windows.csv"));
    let known = windows.iter().filter(|w| number(w, "window") >= 1024.0).map(|w| number(w, "in_time"));
    assert!(known.clone().count() == 3 && known.clone().all(|known| known >= 0.98), "{windows:?}");
    let words = ["Figure 2", "Figure 4", "Figure 5", "more nodes gain more", "2√P − 2 = 18", "rows of tiles"];
    // A matrix of one size makes no curve.
    page(&directory, 2, &words);
}

#[test]
fn overlap_has_a_page_of_its_own() {
    let refused = [
        ("24", "--to: expected a power of two from 4 to 512 processes for this paper, found 24"),
        ("1024", "--to: expected a power of two from 4 to 512 processes for this paper, found 1024"),
    ];
    let (directory, said) = small("overlap", "4", refused);
    assert!(said.contains("Figure 10a: 2D FFT on 4 processes") && said.contains("index.html"), "{said}");

    let points = csv(&directory.join("points.csv"));
    let sizes = [
        ("2D FFT", &["16384", "32768", "65536", "131072", "262144"][..]),
        ("3D FFT", &["1024", "2048", "4096"]),
        ("word count", &["262", "524", "1048"]),
        ("matrix–vector product", &["1024", "2048", "4096"]),
    ];
    for (benchmark, sizes) in sizes {
        for size in sizes {
            let value = |curve: &str| value(&points, &[("benchmark", benchmark), ("size", size), ("curve", curve)]);
            let [whole, polling, callback, hardware, thread, delivered] =
                ["whole_ms", "ev_po_ms", "cb_sw_ms", "cb_hw_ms", "ct_de_ms", "whole_cb_hw_ms"].map(value);
            assert!((value("cb_sw_gain") - whole / callback).abs() < 1e-9);
            assert!((value("whole_cb_hw_gain") - whole / delivered).abs() < 1e-9);
            // What costs nobody's time is the fastest, but for the order in which equal things happen.
            assert!(hardware <= 1.01 * polling.min(callback) && hardware <= 1.01 * whole, "{benchmark} {size}");
            assert!(hardware <= 1.01 * delivered && delivered <= 1.01 * whole, "{benchmark} {size}");
            // The same version and delivery, where a core of eight is missing.
            assert!(thread >= 0.99 * delivered, "{benchmark} {size}: {thread} {delivered}");
        }
    }
    // The lines, at 4 GFlop/s for each of 8 cores, come before anything else. Nothing is faster than its tasks.
    let whole = value(&points, &[("benchmark", "2D FFT"), ("size", "65536"), ("curve", "whole_ms")]);
    let lines = 65536.0 * 512.0 / 4.0 * 5.0 * 16.0 * 0.25 / 8.0 * 1e-6;
    assert!(whole > 2.0 * lines, "{whole} {lines}");
    for name in ["whole.json", "parts.json"] {
        let trace = fs::read_to_string(directory.join(name)).expect("a trace");
        assert!(trace.contains("\"sub\"") && trace.contains("\"pack\""), "{name}");
    }
    let words = ["Figures 10 and 12", "Figure 11", "last part with its path", "rendezvous", "have “–”"];
    page(&directory, 9, &words);
}

/// The page as a browser draws it, in one of the two colour schemes: width, height, and colours row by row.
fn seen(page: &Path, scheme: &str) -> (usize, Vec<[u8; 3]>) {
    // 0 is dark, 1 light.
    let setting = format!("--blink-settings=preferredColorScheme={}", u8::from(scheme == "light"));
    let picture = page.with_file_name(format!("{scheme}.png"));
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1100,5600", &setting])
        .arg(format!("--screenshot={}", picture.display()))
        .arg(page)
        .output()
        .expect("chromium starts (apt-get install chromium)");
    assert!(picture.exists(), "{}", String::from_utf8_lossy(&output.stderr));
    let decoder = png::Decoder::new(std::io::BufReader::new(fs::File::open(picture).expect("there")));
    let mut reader = decoder.read_info().expect("a picture");
    let mut bytes = vec![0; reader.output_buffer_size().expect("small enough")];
    let info = reader.next_frame(&mut bytes).expect("a picture");
    let samples = info.color_type.samples();
    (info.width as usize, bytes[..info.buffer_size()].chunks_exact(samples).map(|p| [p[0], p[1], p[2]]).collect())
}

#[test]
#[ignore = "needs Chromium; ./check runs it"]
fn nightly_a_browser_shows_curves_bands_and_labels_in_light_and_dark() {
    let (directory, _) = figures("browser", 128);
    let page = directory.join("index.html");
    let dom = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .arg(&page)
        .output()
        .expect("chromium starts (apt-get install chromium)");
    let dom = String::from_utf8_lossy(&dom.stdout).into_owned();
    // Each of the eleven plots has curves and axes with labels; four have a band, and the plots of predictions go to
    // 512 shards.
    let plots: Vec<&str> = dom.split("<svg").skip(1).collect();
    assert_eq!(plots.len(), 11);
    for plot in &plots {
        assert!(plot.contains("<polyline") && plot.contains("shards P"), "{plot}");
        assert!(["16", "32", "64", "128"].iter().all(|label| plot.contains(&format!("\n{label}\n"))), "{plot}");
    }
    assert_eq!(plots.iter().filter(|plot| plot.contains("<polygon")).count(), 4);

    const BLUE: [u8; 3] = [0, 114, 178];
    for (scheme, paper, ink) in [("light", [255; 3], [40; 3]), ("dark", [0x18; 3], [0xe0; 3])] {
        let (_, pixels) = seen(&page, scheme);
        let near = |colour: [f64; 3]| {
            let close = |p: &&[u8; 3]| p.iter().zip(colour).all(|(p, c)| (f64::from(*p) - c).abs() <= 3.0);
            pixels.iter().filter(close).count()
        };
        let band: [f64; 3] = std::array::from_fn(|i| 0.8 * f64::from(paper[i]) + 0.2 * f64::from(BLUE[i]));
        let found = [paper.map(f64::from), ink.map(f64::from), BLUE.map(f64::from), band].map(near);
        let [paper, ink, curve, band] = found;
        assert!(paper > pixels.len() / 2, "{scheme}: {found:?} of {}", pixels.len());
        assert!(ink > 1000 && curve > 2000 && band > 20_000, "{scheme}: {found:?}");
    }
}

#[test]
fn what_can_not_be_is_refused() {
    for (args, expected) in [
        ("figures --output /tmp/none --to 64", "--to: expected at least 128"),
        (
            "figures --output /tmp/none --to 129",
            "--to: expected 128, 256, 512, 1024, or 1024 times a power of four, found 129",
        ),
        ("figures --output /tmp/none --to 2048", "found 2048"),
        ("figures --output /tmp/none --machine ideal", "nothing takes any time on `ideal`"),
        ("figures --output /tmp/none --to 18446744073709551615", "--to: expected at most 16777216"),
        (
            "figures --output /tmp/none --machine local",
            "--machine: expected a machine with as many nodes as a run has shards",
        ),
    ] {
        crate::common::refuses(args, expected);
    }
}
