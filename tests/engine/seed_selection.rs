//! Selects the seeds that a simulation runs, and shares them out among its tests.

use std::ops::Range;

/// Number of tests that share the seeds of a simulation.
const PARTS: u64 = 8;

/// Returns the seed of `GONE_SEED=17`, else the seeds of `GONE_SEEDS=0..1000`, else `few`.
pub fn seeds(few: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let range = |text: String| -> Range<u64> {
        let (from, to) = text
            .split_once("..")
            .expect("GONE_SEEDS is written as FROM..TO, for example 0..1000");
        from.parse().unwrap()..to.parse().unwrap()
    };
    match (std::env::var("GONE_SEED"), std::env::var("GONE_SEEDS")) {
        (Ok(seed), _) => vec![seed.parse().unwrap()],
        (_, Ok(seeds)) => range(seeds).collect(),
        _ => few.into_iter().collect(),
    }
}

/// Runs the seeds of one part. All parts together run the seeds of the environment (see [`seeds`]), else 0 to 999.
pub fn run_part<T>((part, name): (u64, &str), run: impl Fn(u64) -> Result<T, String>) {
    for seed in seeds(0..1000) {
        if seed % PARTS == part
            && let Err(problem) = run(seed)
        {
            panic!(
                "{problem}\nto run this seed again: GONE_SEED={seed} cargo test --test engine {name}"
            );
        }
    }
}

/// Defines tests with these names, each of which runs the seeds of one part.
macro_rules! in_parts {
    ($run:expr; $($part:literal $name:ident,)*) => {
        $(#[test]
        fn $name() {
            $crate::seed_selection::run_part(($part, stringify!($name)), $run);
        })*
    };
}
pub(crate) use in_parts;
