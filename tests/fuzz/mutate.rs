//! Makes invalid samples from valid ones, and runs the cases. The strategies are those of proptest, which also
//! makes a failing case smaller.

use std::path::PathBuf;
use std::sync::Once;
use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

/// The number of cases of one parser for each seed; `cargo test` runs one seed.
const CASES: u32 = 200;
/// A case takes some milliseconds. Even on a busy machine, a case that takes this long hangs, or its work grows
/// faster than its input.
const CASE_MAX: Duration = Duration::from_secs(10);
/// The longest text of a case. The samples are smaller.
const BYTES_MAX: usize = 256 * 1024;
/// The address space of the whole process. A parser that needs more for such short input has no bound.
const MEMORY_BYTES_MAX: u64 = 8 << 30;

/// Words that every format knows and words that have broken parsers, such as extreme numbers and invalid text.
const WORDS: [&str; 34] = [
    "",
    " ",
    "\n",
    "\t",
    "\r\n",
    "\0",
    "null",
    "true",
    "~",
    "-",
    "0",
    "-1",
    "1e999",
    "NaN",
    "inf",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775809",
    "0.1",
    "\"",
    "'",
    "\\",
    "\\u0000",
    "\\ud800",
    "#",
    "=",
    ":",
    ",",
    "%",
    "..",
    "\u{feff}",
    "\u{202e}",
    "é",
    "🙂",
];
const OPENS: [&str; 9] = [
    "[", "{", "(", "\"", "[[a]]\n", "{\"a\":", "- ", "? ", "&a [*a,",
];

#[derive(Clone, Debug)]
enum Mutation {
    Flip {
        at: u32,
        bit: u8,
    },
    Set {
        at: u32,
        byte: u8,
    },
    Remove {
        at: u32,
        bytes: u16,
    },
    Repeat {
        at: u32,
        bytes: u16,
        times: u8,
    },
    Word {
        at: u32,
        word: usize,
        over: u8,
    },
    Nest {
        at: u32,
        open: usize,
        depth: u16,
    },
    /// Inserts a part of another sample.
    Splice {
        at: u32,
        sample: usize,
        from: u32,
        bytes: u16,
    },
    /// Replaces the next digits by a number, or inserts the number if there are none.
    Number {
        at: u32,
        number: u64,
    },
    Cut {
        at: u32,
    },
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let at = || any::<u32>();
    prop_oneof![
        2 => (at(), 0..8u8).prop_map(|(at, bit)| Mutation::Flip { at, bit }),
        2 => (at(), any::<u8>()).prop_map(|(at, byte)| Mutation::Set { at, byte }),
        2 => (at(), 1..200u16).prop_map(|(at, bytes)| Mutation::Remove { at, bytes }),
        1 => (at(), 1..200u16, 1..50u8)
            .prop_map(|(at, bytes, times)| Mutation::Repeat { at, bytes, times }),
        4 => (at(), any::<prop::sample::Index>(), 0..12u8)
            .prop_map(|(at, word, over)| Mutation::Word { at, word: word.index(1 << 16), over }),
        1 => (at(), 0..OPENS.len(), 1..20_000u16)
            .prop_map(|(at, open, depth)| Mutation::Nest { at, open, depth }),
        3 => (at(), any::<prop::sample::Index>(), at(), 1..2_000u16).prop_map(
            |(at, sample, from, bytes)| Mutation::Splice {
                at,
                sample: sample.index(1 << 16),
                from,
                bytes
            }
        ),
        2 => (at(), any::<u64>()).prop_map(|(at, number)| Mutation::Number { at, number }),
        1 => at().prop_map(|at| Mutation::Cut { at }),
    ]
}

impl Mutation {
    fn apply(&self, text: &mut Vec<u8>, samples: &[Vec<u8>], words: &[&str]) {
        let place = |at: u32, text: &[u8]| at as usize % (text.len() + 1);
        match *self {
            Self::Flip { at, bit } => {
                let at = place(at, text);
                text.get_mut(at)
                    .into_iter()
                    .for_each(|byte| *byte ^= 1 << bit);
            }
            Self::Set { at, byte } => {
                let at = place(at, text);
                text.get_mut(at).into_iter().for_each(|old| *old = byte);
            }
            Self::Remove { at, bytes } => {
                let at = place(at, text);
                text.drain(at..(at + usize::from(bytes)).min(text.len()));
            }
            Self::Repeat { at, bytes, times } => {
                let at = place(at, text);
                let end = (at + usize::from(bytes)).min(text.len());
                let part = text[at..end].repeat(times.into());
                text.splice(at..at, part);
            }
            Self::Word { at, word, over } => {
                let at = place(at, text);
                let end = (at + usize::from(over)).min(text.len());
                let all: Vec<&str> = WORDS.iter().chain(words).copied().collect();
                let word = all[word % all.len()].bytes().collect::<Vec<u8>>();
                text.splice(at..end, word);
            }
            Self::Nest { at, open, depth } => {
                let at = place(at, text);
                let nest = OPENS[open].repeat(depth.into()).into_bytes();
                text.splice(at..at, nest);
            }
            Self::Splice {
                at,
                sample,
                from,
                bytes,
            } => {
                let other = &samples[sample % samples.len()];
                let from = place(from, other);
                let end = (from + usize::from(bytes)).min(other.len());
                let at = place(at, text);
                text.splice(at..at, other[from..end].to_vec());
            }
            Self::Number { at, number } => {
                let from = place(at, text);
                let digit = |byte: &u8| byte.is_ascii_digit();
                let start = (from..text.len())
                    .find(|at| digit(&text[*at]))
                    .unwrap_or(from);
                let end = (start..text.len())
                    .find(|at| !digit(&text[*at]))
                    .unwrap_or(start);
                text.splice(start..end, number.to_string().into_bytes());
            }
            Self::Cut { at } => text.truncate(place(at, text)),
        }
        text.truncate(BYTES_MAX);
    }
}

/// The bytes of a case, which are shown as escaped ASCII.
#[derive(Clone)]
pub struct Case(pub Vec<u8>);

impl Case {
    /// Returns the bytes as text, with invalid UTF-8 replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "b\"{}\"", self.0.escape_ascii())
    }
}

/// Mutants of the samples. `words` are words of the format.
pub fn mutants(
    samples: Vec<Vec<u8>>,
    words: &'static [&'static str],
) -> impl Strategy<Value = Case> {
    (any::<prop::sample::Index>(), vec(mutation(), 0..8)).prop_map(move |(sample, mutations)| {
        let mut text = samples[sample.index(samples.len())].clone();
        for mutation in mutations {
            mutation.apply(&mut text, &samples, words);
        }
        Case(text)
    })
}

/// Runs cases of the strategy: a fixed number, or for as long as `GONE_FUZZ_SECONDS` says.
pub fn fuzz<S: Strategy>(name: &str, strategy: &S, check: impl Fn(&S::Value))
where
    S::Value: std::fmt::Debug,
{
    bound_memory();
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse::<u64>().unwrap())
    };
    let seconds = number("GONE_FUZZ_SECONDS");
    let since_1970 = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let usual = seconds.map_or(1, |_| since_1970.as_secs() << 20);
    let first = number("GONE_SEED").unwrap_or(usual);
    let begun = Instant::now();
    let last = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{name}"));
    for seed in first.. {
        run(seed, strategy, |case| {
            std::fs::write(&last, format!("seed {seed}: {case:?}")).unwrap();
            let since = Instant::now();
            check(case);
            let took = since.elapsed();
            assert!(took < CASE_MAX, "the case took {took:?}");
        });
        if begun.elapsed().as_secs() >= seconds.unwrap_or_default() {
            println!("{name}: {} cases", u64::from(CASES) * (seed - first + 1));
            return;
        }
    }
}

fn run<S: Strategy>(seed: u64, strategy: &S, check: impl Fn(&S::Value))
where
    S::Value: std::fmt::Debug,
{
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases: CASES,
        max_shrink_time: 60_000,
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let ran = runner.run(strategy, |case| {
        check(&case);
        Ok(())
    });
    match ran {
        Ok(()) => {}
        Err(TestError::Fail(why, case)) => panic!("seed {seed}: {why}\n{case:?}"),
        Err(TestError::Abort(why)) => panic!("seed {seed}: {why}"),
    }
}

fn bound_memory() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let wanted = Rlimit {
            current: Some(MEMORY_BYTES_MAX),
            maximum: getrlimit(Resource::As).maximum,
        };
        setrlimit(Resource::As, wanted).unwrap();
    });
}
