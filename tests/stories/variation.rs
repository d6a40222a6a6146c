//! Variations of a story: names, sizes and times that its outcome must not depend on.

use std::time::Duration;

use toml::{Table, Value};

#[derive(Clone, Copy)]
pub struct Variation {
    /// Width of the terminal.
    pub columns: u16,
    /// Height of the terminal.
    pub rows: u16,
    /// Delay of every answer of the practice cloud; None for the delay that the scenario sets.
    pub latency_ms: Option<u32>,
    /// Pause of the user before each group of keys.
    pub pause: Duration,
    /// Percentage to which counts of 100 and more in a scenario are reduced.
    percent: u64,
    names: Names,
}

/// Defines the tests of a story: each calls the function with its variation.
macro_rules! in_variations {
    ($run:ident, $($variation:ident fn $name:ident();)*) => {
        $(#[test]
        fn $name() {
            $run(&$crate::variation::Variation::$variation());
        })*
    };
}
pub(crate) use in_variations;

/// Pairs of a name in the scenarios and its name in this variation. The baseline has none.
type Names = &'static [(&'static str, &'static str)];

impl Variation {
    /// The scenario as it is written, on a terminal of the usual size.
    pub fn baseline() -> Self {
        Self {
            columns: 80,
            rows: 24,
            latency_ms: None,
            pause: Duration::ZERO,
            percent: 100,
            names: &[],
        }
    }

    /// A slow cloud with long names, and a user who types at once on a large screen.
    pub fn slow_cloud() -> Self {
        Self {
            columns: 200,
            rows: 60,
            latency_ms: Some(250),
            pause: Duration::ZERO,
            percent: 60,
            names: LONG,
        }
    }

    /// A cloud with short names that answers at once, and a user who pauses before each group of keys.
    pub fn fast_cloud() -> Self {
        Self {
            columns: 90,
            rows: 26,
            latency_ms: Some(0),
            pause: Duration::from_millis(120),
            percent: 40,
            names: SHORT,
        }
    }

    /// Returns the name in this variation for a name in the scenarios.
    ///
    /// # Panics
    /// If this variation has no name for it.
    pub fn name<'a>(&self, written: &'a str) -> &'a str {
        if self.names.is_empty() {
            return written;
        }
        let found = self.names.iter().find(|(known, _)| *known == written);
        found
            .unwrap_or_else(|| panic!("the variation has no name for {written}"))
            .1
    }

    /// Returns the count in this variation for a count of 100 or more in a scenario.
    pub fn count(&self, written: u64) -> u64 {
        written * self.percent / 100
    }

    /// The progress bar of a finished deletion. The bar is a quarter of the screen wide.
    pub fn full_bar(&self) -> String {
        "█".repeat(usize::from(self.columns / 4))
    }

    /// Applies this variation to a scenario. None for the baseline, which changes nothing.
    pub fn scenario(&self, written: &str) -> Option<String> {
        if self.names.is_empty() {
            return None;
        }
        let mut scenario: Table = written.parse().unwrap();
        self.vary(&mut scenario);
        if let Some(latency) = self.latency_ms {
            let limits = Value::Array(vec![Value::Table(Table::new())]);
            let limits = scenario.entry("limits").or_insert(limits);
            for limits in limits.as_array_mut().unwrap() {
                let limits = limits.as_table_mut().unwrap();
                limits.insert("latency_ms".to_owned(), Value::from(latency));
            }
        }
        Some(scenario.to_string())
    }

    fn vary(&self, table: &mut Table) {
        for (key, value) in table {
            match (key.as_str(), value) {
                ("name", Value::String(name)) => {
                    if let Some((_, other)) = self.names.iter().find(|(known, _)| known == name) {
                        (*other).clone_into(name);
                    }
                }
                ("repeat" | "ports_per_network" | "times", Value::Integer(n)) if *n >= 100 => {
                    *n = self.count(n.unsigned_abs()).try_into().unwrap();
                }
                (_, Value::Table(inner)) => self.vary(inner),
                (_, Value::Array(items)) => {
                    let tables = items.iter_mut().filter_map(Value::as_table_mut);
                    tables.for_each(|inner| self.vary(inner));
                }
                _ => {}
            }
        }
    }
}

/// Longer names, most with spaces, and many with characters that are two columns wide. Each fits the narrowest column
/// in which a story reads it.
const LONG: Names = &[
    ("web", "Shop frontend 網路 7"),
    ("storage", "Cold storage 倉庫 2031"),
    ("external", "The Internet, all of it"),
    ("edge", "Edge of town 界"),
    ("server", "Order server 19 網"),
    ("disk", "A disk nobody needs"),
    ("sub-a", "Below, first 甲"),
    ("sub-b", "Below, second 乙"),
    ("parent", "Parent of two"),
    ("backup", "Night backup 夜 400"),
    ("front", "Front 前 80"),
    ("sibling", "Its sibling 後"),
    ("www", "World wide 門 443"),
    ("archive", "Archive 1998 to 2016"),
    ("archive-${n}", "Sheet ${n} of the archive 頁"),
    ("crm", "Customers 顧客 3"),
    ("branch", "Branch in Kyōto 京都"),
    ("appliance", "Some appliance 箱"),
    ("office", "Office, second floor"),
    ("hr", "People and pay 人"),
    ("erp", "Resources 資源"),
    ("wiki", "What we know 知"),
    ("seed", "Seeds of 2031 種"),
    ("shop", "Shop of 1,001 things 店"),
    ("shop-net-0", "Shop of 1,001 things 店-net-0"),
    ("quiet", "Quiet corner 静"),
    ("aaa", "0 before all others"),
    ("phoenix", "Phoenix 不死鳥 III"),
    ("phoenix-${n}", "Feather ${n} 羽"),
    ("golden", "Golden image 金 24.04 LTS"),
    ("web\u{1b}]2;owned\u{7}", "Café 網\u{1b}]2;taken over\u{7}"),
    ("harmless\rDELETED", "Nothing 無\rALL DELETED"),
    ("first\nsecond", "Line 一\nline 二"),
    ("web-\u{202e}gnp.exe", "Café-\u{202e}fdp.moc 網"),
    ("we\u{200b}b", "Ca\u{200b}fé 網"),
    ("csi \u{9b}31m", "csi 網 \u{9b}32m"),
    (FORMULA, "=HYPERLINK(\"http://bad.example\",\"網\")"),
];

/// Short names, such as programs generate.
const SHORT: Names = &[
    ("web", "n-0042-web"),
    ("storage", "n-0043-storage"),
    ("external", "n-0001-ext"),
    ("edge", "r-0007-edge"),
    ("server", "p-0100-server"),
    ("disk", "p-0101-disk"),
    ("sub-a", "p-0102-sub"),
    ("sub-b", "p-0103-sub"),
    ("parent", "p-0104-parent"),
    ("backup", "t-0001-backup"),
    ("front", "lb-0001"),
    ("sibling", "lb-0002"),
    ("www", "p-0200-www"),
    ("archive", "n-0400-archive"),
    ("archive-${n}", "p-04${n}"),
    ("crm", "n-0401-crm"),
    ("branch", "n-0402-branch"),
    ("appliance", "p-9999"),
    ("office", "r-0008-office"),
    ("hr", "n-0403-hr"),
    ("erp", "n-0404-erp"),
    ("wiki", "n-0405-wiki"),
    ("seed", "s-0600"),
    ("shop", "s-0001"),
    ("shop-net-0", "s-0001-net-0"),
    ("quiet", "q-0017"),
    ("aaa", "a-0000"),
    ("phoenix", "n-0500-px"),
    ("phoenix-${n}", "p-05${n}"),
    ("golden", "img-2404-01"),
    ("web\u{1b}]2;owned\u{7}", "n-1\u{1b}]2;pwn-1\u{7}"),
    ("harmless\rDELETED", "n-3-safe\rGONE"),
    ("first\nsecond", "n-4\nn-5"),
    ("web-\u{202e}gnp.exe", "n-6-\u{202e}gpj.exe"),
    ("we\u{200b}b", "n-\u{200b}7"),
    ("csi \u{9b}31m", "n-10-\u{9b}7m"),
    (FORMULA, "=HYPERLINK(\"http://n-13.example\",\"n\")"),
];

const FORMULA: &str = r#"=HYPERLINK("http://evil.example","web")"#;
