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
pub fn run_part<T>(part: u64, run: impl Fn(u64) -> Result<T, String>) {
    for seed in seeds(0..1000) {
        if seed % PARTS == part
            && let Err(problem) = run(seed)
        {
            panic!("{problem}\nagain: GONE_SEED={seed}");
        }
    }
}

/// Eight tests beside each other, each with the seeds of one part.
macro_rules! in_parts {
    ($run:expr) => {
        $crate::which_seeds::in_parts! { $run;
            0 seeds_part_0, 1 seeds_part_1, 2 seeds_part_2, 3 seeds_part_3,
            4 seeds_part_4, 5 seeds_part_5, 6 seeds_part_6, 7 seeds_part_7,
        }
    };
    ($run:expr; $($part:literal $name:ident,)*) => {
        $(#[test]
        fn $name() {
            $crate::which_seeds::run_part($part, $run);
        })*
    };
}
pub(crate) use in_parts;
