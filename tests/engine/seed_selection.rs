//! Which seeds a simulation runs, and how they are shared out.

use std::ops::Range;

/// Number of tests that share the seeds of a simulation.
const PARTS: u64 = 8;

/// `GONE_SEED=17` is one, `GONE_SEEDS=0..1000` are many; else these.
pub fn seeds(few: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let range = |text: String| -> Range<u64> {
        let (from, to) = text.split_once("..").expect("GONE_SEEDS=FROM..TO");
        from.parse().unwrap()..to.parse().unwrap()
    };
    match (std::env::var("GONE_SEED"), std::env::var("GONE_SEEDS")) {
        (Ok(seed), _) => vec![seed.parse().unwrap()],
        (_, Ok(seeds)) => range(seeds).collect(),
        _ => few.into_iter().collect(),
    }
}

/// Runs the seeds of one part, of a thousand in all if no others are asked for.
pub fn run_part<T>((part, name): (u64, &str), run: impl Fn(u64) -> Result<T, String>) {
    for seed in seeds(0..1000) {
        if seed % PARTS == part
            && let Err(problem) = run(seed)
        {
            panic!("{problem}\nagain: GONE_SEED={seed} cargo test --test engine {name}");
        }
    }
}

/// Eight tests beside each other, by their names, each with the seeds of one part.
macro_rules! in_parts {
    ($run:expr; $($part:literal $name:ident,)*) => {
        $(#[test]
        fn $name() {
            $crate::seed_selection::run_part(($part, stringify!($name)), $run);
        })*
    };
}
pub(crate) use in_parts;
