//! The seeds that failed once: each found something, and is run again for good.

/// What `crates/fleet-sim/regressions.txt` says: a seed a line, and after `#` what it found.
const REGRESSIONS: &str = include_str!("../regressions.txt");

/// The seeds that failed once.
///
/// # Panics
///
/// If the file has a line that is no seed.
#[must_use]
pub fn seeds() -> Vec<u64> {
    parse(REGRESSIONS).unwrap_or_else(|line| panic!("regressions.txt: {line:?} is no seed"))
}

fn parse(text: &str) -> Result<Vec<u64>, &str> {
    let seeds = text
        .lines()
        .map(|line| line.split_once('#').map_or(line, |(seed, _)| seed).trim());
    seeds
        .filter(|line| !line.is_empty())
        .map(|seed| seed.parse().map_err(|_| seed))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_a_line_and_what_it_found_behind_it() {
        assert_eq!(
            parse("# what is what\n\n7 # a lost record\n  8\n"),
            Ok(vec![7, 8])
        );
        assert_eq!(parse("7\nseven"), Err("seven"));
    }

    #[test]
    fn the_file_is_well_formed() {
        let _ = seeds();
    }
}
