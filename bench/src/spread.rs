//! What several repetitions say together: their middle, and how far apart they are.

use std::fmt;

use crate::measure::Side;

/// The median of some figures, the least and the greatest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    least: f64,
    most: f64,
    decimals: usize,
}

impl Spread {
    /// Of at least one figure.
    pub(crate) fn of(figures: impl IntoIterator<Item = f64>) -> Self {
        let mut figures: Vec<f64> = figures.into_iter().collect();
        figures.sort_by(f64::total_cmp);
        let middle = figures.len() / 2;
        let median = match figures.len() % 2 {
            0 if middle > 0 => f64::midpoint(figures[middle - 1], figures[middle]),
            _ => figures.get(middle).copied().unwrap_or(f64::NAN),
        };
        Self {
            median,
            least: figures.first().copied().unwrap_or(f64::NAN),
            most: figures.last().copied().unwrap_or(f64::NAN),
            decimals: 2,
        }
    }

    /// How many decimals a table shows; two, if not said.
    pub(crate) fn decimals(mut self, decimals: usize) -> Self {
        self.decimals = decimals;
        self
    }

    /// The median alone.
    pub(crate) fn middle(self) -> String {
        grouped(self.median, self.decimals)
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [median, least, most] =
            [self.median, self.least, self.most].map(|figure| grouped(figure, self.decimals));
        write!(f, "{median} ({least}..{most})")
    }
}

/// A figure with its thousands apart.
pub(crate) fn grouped(figure: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", figure.abs());
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let is_zero = text.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    let sign = if figure < 0.0 && !is_zero { "-" } else { "" };
    format!("{sign}{grouped}{fraction}")
}

/// What the two sides gave, one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair<T> {
    pub(crate) plain: T,
    pub(crate) library: T,
}

/// Has both sides run by turns, so that what the machine does meanwhile befalls both. The first turn of each warms up
/// and does not count.
pub(crate) fn alternate<T>(
    repetitions: usize,
    mut run: impl FnMut(Side) -> anyhow::Result<T>,
) -> anyhow::Result<Vec<Pair<T>>> {
    let mut pairs = Vec::with_capacity(repetitions);
    for repetition in 0..=repetitions {
        let plain = run(Side::Plain)?;
        let library = run(Side::Library)?;
        if repetition > 0 || repetitions == 0 {
            pairs.push(Pair { plain, library });
        }
    }
    Ok(pairs)
}

/// The spread of a figure of each pair.
pub(crate) fn spread<T>(pairs: &[Pair<T>], figure: impl Fn(&Pair<T>) -> f64) -> Spread {
    Spread::of(pairs.iter().map(figure))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_lies_in_the_middle_whatever_the_order() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]).to_string(), "2.00 (1.00..3.00)");
        assert_eq!(
            Spread::of([4.0, 1.0, 3.0, 2.0]).decimals(1).to_string(),
            "2.5 (1.0..4.0)"
        );
    }

    #[test]
    fn thousands_are_set_apart_and_a_sign_is_kept() {
        assert_eq!(grouped(1_234_567.891, 1), "1,234,567.9");
        assert_eq!(grouped(-1_000.0, 0), "-1,000");
        assert_eq!(grouped(999.0, 0), "999");
        assert_eq!(grouped(-0.001, 2), "0.00");
    }

    #[test]
    fn sides_take_turns_and_the_first_turn_does_not_count() {
        let mut turns = Vec::new();
        let pairs = alternate(2, |side| {
            turns.push(side);
            Ok(turns.len())
        })
        .unwrap();
        assert_eq!(turns, [Side::Plain, Side::Library].repeat(3));
        let counted: Vec<_> = pairs
            .iter()
            .map(|pair| (pair.plain, pair.library))
            .collect();
        assert_eq!(counted, [(3, 4), (5, 6)]);
    }
}
