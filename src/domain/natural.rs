//! Natural order: digits count as numbers, so `web-2` comes before `web-10`; case does not count.

use std::cmp::Ordering;
use std::iter::Peekable;
use std::str::Chars;

/// A text that is ordered naturally.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Natural(String);

impl Natural {
    pub fn new(text: &str) -> Self {
        Self(text.to_lowercase())
    }
}

impl PartialOrd for Natural {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Natural {
    fn cmp(&self, other: &Self) -> Ordering {
        let (mut own, mut others) = (self.0.chars().peekable(), other.0.chars().peekable());
        loop {
            let order = match (own.peek().copied(), others.peek().copied()) {
                // Texts that are equal in natural order, such as `01` and `1`, are ordered byte by byte.
                (None, None) => return self.0.cmp(&other.0),
                (None, Some(_)) => return Ordering::Less,
                (Some(_), None) => return Ordering::Greater,
                (Some(a), Some(b)) if a.is_ascii_digit() && b.is_ascii_digit() => {
                    let (a, b) = (number(&mut own), number(&mut others));
                    a.len().cmp(&b.len()).then_with(|| a.cmp(&b))
                }
                (Some(a), Some(b)) => {
                    own.next();
                    others.next();
                    a.cmp(&b)
                }
            };
            if order.is_ne() {
                return order;
            }
        }
    }
}

/// Takes the digits of a number, without zeros at its start and without the commas between thousands.
fn number(text: &mut Peekable<Chars<'_>>) -> String {
    let mut digits = String::new();
    while let Some(c) = text.next_if(|c| c.is_ascii_digit() || *c == ',') {
        if c.is_ascii_digit() && (c != '0' || !digits.is_empty()) {
            digits.push(c);
        }
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_by_the_numbers_in_them_and_regardless_of_case() {
        let names = [
            "", "9", "10", "Archive", "web-2", "WEB-10", "web-10a", "web-11",
        ];
        for pair in names.windows(2) {
            assert!(Natural::new(pair[0]) < Natural::new(pair[1]), "{pair:?}");
        }
        assert!(Natural::new("10.0.0.9") < Natural::new("10.0.0.10"));
        assert!(Natural::new("999") < Natural::new("1,500"));
        assert_ne!(Natural::new("01"), Natural::new("1"));
        let long = "9".repeat(300);
        assert!(Natural::new(&long) < Natural::new(&format!("1{long}")));
    }
}
