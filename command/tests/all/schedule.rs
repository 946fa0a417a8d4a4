//! `maniple schedule` from outside: small schedules against those worked out by hand, and drawings that are whole.

use crate::common::maniple;
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;

fn succeeds(args: &str) -> String {
    let output = maniple(&format!("schedule --kind {args}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*said), (Some(0), ""), "{args}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn json(args: &str) -> Value {
    serde_json::from_str(&succeeds(&format!("{args} --format json"))).expect("a JSON object")
}

/// The steps of a schedule: each rank's lines, without the heading.
fn ranks(text: &str) -> &str {
    &text[text.find("\n\n").expect("a blank line") + 2..]
}

/// Four ranks exchange with their neighbour, and then two ranks away.
#[test]
fn recursive_doubling_of_four_and_of_three() {
    assert_eq!(
        succeeds("allreduce --shards 4"),
        "allreduce of 4 ranks by recursive-doubling\n\
         2 rounds, 8 messages, 16 subtasks\n\
         any operator, brackets of recursive doubling\n\n\
         rank 0\n  round 1: → 1, ← 1 higher\n  round 2: → 2, ← 2 higher\n\n\
         rank 1\n  round 1: → 0, ← 0 lower\n  round 2: → 3, ← 3 higher\n\n\
         rank 2\n  round 1: → 3, ← 3 higher\n  round 2: → 0, ← 0 lower\n\n\
         rank 3\n  round 1: → 2, ← 2 lower\n  round 2: → 1, ← 1 lower\n"
    );
    // Rank 1 is folded into rank 0, and gets the result from it. Rank 2 has sent its value before rank 0 takes it.
    assert_eq!(
        succeeds("allreduce --shards 3"),
        "allreduce of 3 ranks by recursive-doubling\n\
         2 rounds, 4 messages, 8 subtasks\n\
         any operator, brackets of recursive doubling and of a loop\n\n\
         rank 0\n  round 1: ← 1 higher\n  round 2: → 2, ← 2 higher, → 1\n\n\
         rank 1\n  round 1: → 0\n  round 2: ← 0 replace\n\n\
         rank 2\n  round 1: → 0\n  round 2: ← 0 lower\n"
    );
}

#[test]
fn trees_and_circles_of_few_ranks() {
    // Two halves are gathered at their first ranks, and then at rank 0.
    let gather = succeeds("gather --shards 4 --algorithm binomial");
    assert_eq!(
        gather,
        "gather of 4 ranks by binomial\n\
         rank 0 receives\n\
         2 rounds, 3 messages, 6 subtasks\n\
         nothing is combined\n\n\
         rank 0\n  round 1: ← 1 replace into r0[1]\n  round 2: ← 2 replace into r0[2..4]\n\n\
         rank 1\n  round 1: → 0 r0[1]\n\n\
         rank 2\n  round 1: ← 3 replace into r0[3]\n  round 2: → 0 r0[2..4]\n\n\
         rank 3\n  round 1: → 2 r0[3]\n"
    );
    // In the first round each passes on its own block, in the second the one that has come.
    assert_eq!(
        ranks(&succeeds("allgather --shards 3 --algorithm ring")),
        "rank 0\n  round 1: → 1 r0[0], ← 2 replace into r0[2]\n  round 2: → 1 r0[2], ← 2 replace into r0[1]\n\n\
         rank 1\n  round 1: → 2 r0[1], ← 0 replace into r0[0]\n  round 2: → 2 r0[0], ← 0 replace into r0[2]\n\n\
         rank 2\n  round 1: → 0 r0[2], ← 1 replace into r0[1]\n  round 2: → 0 r0[1], ← 1 replace into r0[0]\n"
    );
    // The receiver is none of the participants.
    let reduce = succeeds("reduce --shards 4 --participants 0-1 --receivers 3");
    assert_eq!(
        reduce,
        "reduce of 4 ranks by recursive-doubling\n\
         ranks 0-1 contribute\n\
         rank 3 receives\n\
         2 rounds, 2 messages, 4 subtasks\n\
         any operator, brackets of recursive doubling and of a loop\n\n\
         rank 0\n  round 1: ← 1 higher\n  round 2: → 3\n\n\
         rank 1\n  round 1: → 0\n\n\
         rank 2, no steps\n\n\
         rank 3\n  round 2: ← 0 replace\n"
    );
    // Two processors of two ranks each.
    assert_eq!(
        ranks(&succeeds("allreduce --shards 4 --algorithm two-level --per-processor 2")),
        "rank 0, for ranks 0-1 of its processor\n  round 2: → 2, ← 2 higher\n\n\
         rank 1, combined in place by rank 0\n\n\
         rank 2, for ranks 2-3 of its processor\n  round 2: → 0, ← 0 lower\n\n\
         rank 3, combined in place by rank 2\n"
    );
}

#[test]
fn one_rank_alone() {
    assert_eq!(
        ranks(&succeeds("allreduce --shards 4 --rank 2")),
        "rank 2\n  round 1: → 3, ← 3 higher\n  round 2: → 0, ← 0 lower\n"
    );
    let of = json("allreduce --shards 4 --rank 2");
    assert_eq!((of["ranks"].as_array().map(Vec::len), &of["ranks"][0]["rank"]), (Some(1), &2.into()));
    assert_eq!(
        succeeds("barrier --shards 1"),
        "barrier of 1 rank by recursive-doubling\n0 rounds, 0 messages, 0 subtasks\nnothing is combined\n\nrank 0, no steps\n"
    );
}

/// Rounds and messages by formulas.
#[test]
fn rounds_and_messages() {
    let numbers = |args: &str| {
        let of = json(args);
        ["rounds", "messages"].map(|name| of[name].as_u64().expect("a number"))
    };
    for bits in 0..=8_u64 {
        let shards = 1 << bits;
        assert_eq!(numbers(&format!("allreduce --shards {shards}")), [bits, shards * bits]);
        assert_eq!(numbers(&format!("reduce --shards {shards}")), [bits, shards - 1]);
    }
    for shards in [2, 3, 7, 16, 27, 40] {
        for n in [1, 2, 3] {
            let rounds = (0..).find(|&r| (n + 1_u64).pow(r) >= shards).expect("enough");
            let of = numbers(&format!("barrier --shards {shards} --algorithm dissemination-{n}"));
            assert_eq!(of[0], u64::from(rounds), "{shards} by {n}");
        }
        assert_eq!(numbers(&format!("all-to-all --shards {shards} --algorithm direct")), [1, shards * (shards - 1)]);
        assert_eq!(
            numbers(&format!("allgather --shards {shards} --algorithm ring")),
            [shards - 1, shards * (shards - 1)]
        );
    }
}

/// Where the paper's adaption does not exist, Bruck and Ho's schedule is shown, and it is said.
#[test]
fn five_cases_that_do_not_exist_say_so() {
    let text = succeeds("allreduce --shards 13 --algorithm five-cases-1");
    let lines: Vec<&str> = text.lines().take(4).collect();
    assert_eq!(lines[0], "allreduce of 13 ranks by dissemination-1");
    assert_eq!(lines[1], "five-cases-1 does not exist for 13 ranks, so dissemination-1, by Bruck and Ho, is taken");
    assert_eq!(lines[3], "for operators that are associative, commutative, infallible bit for bit");
    let of = json("allreduce --shards 13 --algorithm five-cases-1");
    assert_eq!((&of["algorithm"], &of["instead"]), (&"dissemination-1".into(), &lines[1].into()));
    assert_eq!(of["laws"], serde_json::json!(["associative", "commutative", "infallible"]));
    assert!(succeeds("allreduce --shards 13 --algorithm five-cases-1 --format svg").contains(lines[1]));
    let inverse = json("allreduce --shards 9 --algorithm five-cases-inverse-1");
    let said = "five-cases-inverse-1 leaves nothing out for 9 ranks, so five-cases-1 is taken";
    assert_eq!((&inverse["algorithm"], &inverse["instead"]), (&"five-cases-1".into(), &said.into()));
    let none = json("allreduce --shards 13 --algorithm five-cases-inverse-1");
    assert_eq!(none["instead"], lines[1].replace("five-cases-1", "five-cases-inverse-1"));
    let exists = json("allreduce --shards 13 --algorithm five-cases-4");
    assert_eq!((&exists["algorithm"], &exists["instead"]), (&"five-cases-4".into(), &Value::Null));
}

/// Every update names the read that takes it, and the read names the update.
#[test]
fn json_names_both_ends_of_each_message() {
    for args in [
        "allreduce --shards 11",
        "barrier --shards 9 --algorithm dissemination",
        "all-to-all --shards 6",
        "exscan --shards 7",
        "broadcast --shards 6 --algorithm chain-3",
    ] {
        let of = json(args);
        let (mut sent, mut read) = (BTreeSet::new(), BTreeSet::new());
        let number =
            |step: &Value, name: &str| step[name].as_u64().unwrap_or_else(|| panic!("{args}: {name} of {step}"));
        for rank in of["ranks"].as_array().expect("ranks") {
            let own = number(rank, "rank");
            let (mut updates, mut reads) = (0, 0);
            for step in rank["steps"].as_array().expect("steps") {
                match step["step"].as_str().expect("a kind") {
                    "update" => {
                        sent.insert([own, updates, number(step, "to"), number(step, "read")]);
                        updates += 1;
                    }
                    "read" => {
                        read.insert([number(step, "from"), number(step, "update"), own, reads]);
                        reads += 1;
                    }
                    local => assert_eq!(local, "local"),
                }
            }
        }
        assert!(sent == read && Some(sent.len() as u64) == of["messages"].as_u64(), "{args}");
    }
}

/// The tags of a drawing. Panics where it is not well-formed.
fn tags(svg: &str) -> Vec<&str> {
    let (mut tags, mut open) = (Vec::new(), Vec::new());
    let mut rest = svg;
    while let Some(at) = rest.find('<') {
        let between = &rest[..at];
        assert!(!between.contains('>') && (!between.contains('&') || between.contains(';')), "{between}");
        let end = rest[at..].find('>').expect("a tag ends") + at;
        let tag = &rest[at + 1..end];
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        let name = |tag: &str| tag.split([' ', '/']).find(|word| !word.is_empty()).expect("a name").to_owned();
        if let Some(closed) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(closed), "{tag}");
        } else if !tag.ends_with('/') {
            open.push(name(tag));
        }
        tags.push(tag);
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "{open:?} {rest}");
    tags
}

/// The numbers of an attribute.
fn numbers(tag: &str, attribute: &str) -> Vec<f64> {
    let Some(at) = tag.find(&format!(" {attribute}=\"")) else { return Vec::new() };
    let text = tag[at + attribute.len() + 3..].split('"').next().expect("a value");
    text.split(|c: char| !c.is_ascii_digit() && c != '.' && c != '-').filter_map(|n| n.parse().ok()).collect()
}

#[test]
fn drawings_are_whole() {
    for args in [
        "allreduce --shards 1",
        "allreduce --shards 64",
        "allreduce --shards 13 --rank 4",
        "barrier --shards 16 --algorithm dissemination",
        "allreduce --shards 10 --algorithm two-level",
        "allreduce --shards 8 --algorithm halving-doubling",
        "all-to-all --shards 7 --algorithm bruck",
        "broadcast --shards 6 --algorithm chain-4",
        "scan --shards 12",
        "scatter --shards 9 --participants 4 --receivers 0-3,8",
    ] {
        let svg = succeeds(&format!("{args} --format svg"));
        let tags = tags(&svg);
        assert!(tags[0].starts_with("svg xmlns=\"http://www.w3.org/2000/svg\""), "{args}");
        let size = ["width", "height"].map(|name| numbers(tags[0], name)[0]);
        // An arrow for each message, and two dashed lines for each rank that another one combines in place.
        let dashed =
            tags.iter().filter(|tag| tag.contains("stroke-dasharray") && tag.contains("fill=\"none\"")).count();
        let arrows = tags.iter().filter(|tag| tag.starts_with("circle")).count();
        let messages = json(args)["messages"].as_u64().expect("a number");
        assert_eq!((arrows + dashed) as u64, messages, "{args}");
        for tag in &tags[1..] {
            for (name, most) in
                [("x", size[0]), ("x1", size[0]), ("x2", size[0]), ("cx", size[0]), ("y", size[1]), ("cy", size[1])]
            {
                assert!(numbers(tag, name).iter().all(|at| (0.0..=most).contains(at)), "{args}: {tag}");
            }
        }
    }
}

/// Of five ranks, the third arrow goes up or down between the lines of its ranks.
#[test]
fn arrows_go_from_rank_to_rank() {
    let svg = succeeds("allreduce --shards 4 --format svg");
    let lines: Vec<f64> = tags(&svg)
        .iter()
        .filter(|tag| tag.starts_with("line") && tag.contains("stroke-width"))
        .map(|tag| numbers(tag, "y1")[0])
        .collect();
    assert_eq!(lines.len(), 4);
    let mut seen = 0;
    for message in svg.lines().filter(|line| line.contains("<title>round")) {
        let title = message.split("<title>").nth(1).and_then(|t| t.split('<').next()).expect("a title");
        let words: Vec<&str> = title.split([' ', ',', ':']).collect();
        let [from, to] = [words[4], words[7]].map(|rank| rank.parse::<usize>().expect("a rank"));
        let paths: Vec<Vec<f64>> = message.split("<path").skip(1).map(|path| numbers(path, "d")).collect();
        assert_eq!((paths[0][1], paths[1][1]), (lines[from], lines[to]), "{title}");
        assert!(paths[0][0] < paths[1][0], "{title}: forwards in time");
        seen += 1;
    }
    assert_eq!(seen, 8);
}

#[test]
fn it_can_go_to_a_file() {
    let file = std::env::temp_dir().join(format!("maniple-schedule-{}.svg", std::process::id()));
    let printed = succeeds("scan --shards 5 --format svg");
    assert_eq!(succeeds(&format!("scan --shards 5 --format svg --output {}", file.display())), "");
    assert_eq!(std::fs::read_to_string(&file).expect("written"), printed);
    std::fs::remove_file(&file).expect("removed");
}

#[cfg(unix)]
#[test]
fn a_schedule_that_does_not_fit_into_memory_is_refused() {
    for (args, algorithm, gib) in [
        ("reduce-scatter --algorithm direct", "direct", "14.8"),
        ("reduce-scatter", "halving", "10.2"),
        ("allreduce --algorithm halving-doubling", "halving-doubling", "4.4"),
    ] {
        let line = format!("ulimit -v 2000000; exec \"$0\" schedule --kind {args} --shards 4096");
        let output = Command::new("sh").args(["-c", &line, crate::MANIPLE]).output().expect("starts");
        let said = String::from_utf8_lossy(&output.stderr);
        let words =
            format!("the schedules of 4096 shards by {algorithm}: this needs at least {gib} GiB of memory, and ");
        assert!(output.status.code() == Some(2) && said.contains(&words), "{said}");
    }
}

#[test]
fn wrong_arguments_are_refused() {
    for (args, words) in [
        ("allreduce --shards 0", "--shards: expected at least 1, found 0"),
        ("allreduce --shards 65537", "expected at most 65536 shards for a schedule, found 65537"),
        ("allreduce --shards 4 --rank 4", "--rank: expected a rank in 0..4, found 4"),
        ("allreduce --shards 4 --algorithm ring", "--algorithm ring: expected an algorithm for this allreduce"),
        ("allreduce --per-processor 4", "--per-processor is for --algorithm two-level, found recursive-doubling"),
        ("allreduce --algorithm two-level --per-processor 0", "--per-processor: expected at least 1, found 0"),
        ("allreduce --algorithm two-level --participants 0-2", "found two-level"),
        ("reduce --algorithm five-cases", "found five-cases-3"),
        ("all-to-all --shards 8193", "--kind all-to-all: expected at most 8192 shards for an all-to-all, found 8193"),
        ("all-to-all --shards 8193 --algorithm direct", "at most 8192 shards for direct, found 8193"),
        (
            "allreduce --shards 257 --format svg",
            "--format svg: expected at most 256 shards and 20000 messages, found 257",
        ),
        ("all-to-all --shards 200 --algorithm direct --format svg", "found 200 shards and 39800 messages"),
        ("allreduce --format png", "[possible values: text, svg, json]"),
        ("allreduce --output /no/such/directory/x.svg", "/no/such/directory/x.svg: can't be written"),
        ("broadcast --participants 0-1", "--participants: expected one shard for broadcast, found 2"),
    ] {
        let output = maniple(&format!("schedule --kind {args}"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && output.stdout.is_empty() && said.contains(words), "{args}: {said}");
    }
}
