//! [Condition and update expressions][expressions], as far as the store sends them. What the service would not
//! accept panics, so that a test shows it.
//!
//! [expressions]: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Expressions.html

use std::cmp::Ordering;

use serde_json::{Map, Value, json};

pub(crate) type Item = Map<String, Value>;

/// The most bytes of an expression.
const LONGEST: usize = 4_096;

/// What the names and the values of the expressions of one request stand for.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    names: &'a Value,
    values: &'a Value,
}

impl<'a> Scope<'a> {
    /// Every name and value that a request gives must be used by one of its expressions.
    pub(crate) fn of(request: &'a Value) -> Self {
        let (names, values) = (
            &request["ExpressionAttributeNames"],
            &request["ExpressionAttributeValues"],
        );
        let expressions = ["ConditionExpression", "UpdateExpression"];
        let used: Vec<String> = expressions
            .iter()
            .filter_map(|expression| request[*expression].as_str())
            .flat_map(tokens)
            .collect();
        for given in [names, values].into_iter().filter_map(Value::as_object) {
            for name in given.keys() {
                assert!(used.contains(name), "{name} is given and not used");
            }
        }
        Self { names, values }
    }

    pub(crate) fn holds(self, condition: &str, item: &Item) -> bool {
        let mut reading = self.read(condition, item);
        let holds = reading.any();
        reading.end();
        holds
    }

    pub(crate) fn update(self, update: &str, item: &mut Item) -> Result<(), String> {
        let before = item.clone();
        let mut reading = self.read(update, &before);
        if reading.eats("SET") {
            loop {
                let name = reading.name();
                reading.expect("=");
                let value = reading.sum()?;
                item.insert(name, value);
                if !reading.eats(",") {
                    break;
                }
            }
        }
        if reading.eats("REMOVE") {
            loop {
                item.remove(&reading.name());
                if !reading.eats(",") {
                    break;
                }
            }
        }
        reading.end();
        Ok(())
    }

    fn read(self, expression: &str, item: &'a Item) -> Reading<'a> {
        assert!(expression.len() <= LONGEST, "{} bytes", expression.len());
        Reading {
            scope: self,
            item,
            tokens: tokens(expression),
            at: 0,
        }
    }
}

/// An expression that is read from its beginning to its end, and means something for this item.
struct Reading<'a> {
    scope: Scope<'a>,
    item: &'a Item,
    tokens: Vec<String>,
    at: usize,
}

impl<'a> Reading<'a> {
    fn next(&mut self) -> String {
        let token = self.tokens.get(self.at).expect("an expression ends early");
        self.at += 1;
        token.clone()
    }

    fn eats(&mut self, token: &str) -> bool {
        let is_next = self.tokens.get(self.at).is_some_and(|next| next == token);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, token: &str) {
        let next = self.next();
        assert_eq!(next, token);
    }

    fn end(&self) {
        assert_eq!(self.at, self.tokens.len(), "{:?}", self.tokens);
    }

    fn any(&mut self) -> bool {
        let mut holds = self.all();
        while self.eats("OR") {
            holds |= self.all();
        }
        holds
    }

    fn all(&mut self) -> bool {
        let mut holds = self.one();
        while self.eats("AND") {
            holds &= self.one();
        }
        holds
    }

    fn one(&mut self) -> bool {
        if self.eats("NOT") {
            return !self.one();
        }
        if self.eats("(") {
            // The service refuses a pair of parentheses that changes nothing.
            assert!(self.tokens[self.at] != "(", "((");
            let holds = self.any();
            self.expect(")");
            return holds;
        }
        for function in ["attribute_exists", "attribute_not_exists", "contains"] {
            if self.eats(function) {
                return self.function(function);
            }
        }
        let left = self.operand();
        if self.eats("BETWEEN") {
            let low = self.operand();
            self.expect("AND");
            let high = self.operand();
            assert!(
                order(low, high).is_some_and(Ordering::is_le),
                "{low:?} {high:?}"
            );
            return order(low, left).is_some_and(Ordering::is_le)
                && order(left, high).is_some_and(Ordering::is_le);
        }
        let operator = self.next();
        let right = self.operand();
        let order = order(left, right);
        match operator.as_str() {
            "=" => order == Some(Ordering::Equal),
            "<>" => order != Some(Ordering::Equal),
            "<" => order == Some(Ordering::Less),
            "<=" => order.is_some_and(Ordering::is_le),
            ">" => order == Some(Ordering::Greater),
            ">=" => order.is_some_and(Ordering::is_ge),
            other => panic!("{other} is no comparison"),
        }
    }

    fn function(&mut self, function: &str) -> bool {
        self.expect("(");
        let attribute = self.operand();
        let holds = match function {
            "attribute_exists" => attribute.is_some(),
            "attribute_not_exists" => attribute.is_none(),
            _ => {
                self.expect(",");
                let part = self.operand();
                text(attribute).is_some_and(|whole| whole.contains(text(part).unwrap()))
            }
        };
        self.expect(")");
        holds
    }

    /// The name of an attribute.
    fn name(&mut self) -> String {
        let token = self.next();
        assert!(token.starts_with('#'), "{token} is no name");
        self.scope.names[&token].as_str().unwrap().to_owned()
    }

    /// A value that the request gives, or what the item has under a name.
    fn operand(&mut self) -> Option<&'a Value> {
        if self.tokens[self.at].starts_with(':') {
            let token = self.next();
            let values = self.scope.values.as_object().unwrap();
            return Some(
                values
                    .get(&token)
                    .unwrap_or_else(|| panic!("{token} is not given")),
            );
        }
        let name = self.name();
        self.item.get(&name)
    }

    fn sum(&mut self) -> Result<Value, String> {
        let mut sum = self.term()?;
        while self.eats("+") {
            let term = self.term()?;
            let (Some(a), Some(b)) = (number(Some(&sum)), number(Some(&term))) else {
                return Err(
                    "An operand in the update expression has an incorrect data type".to_owned(),
                );
            };
            sum = json!({"N": written(a + b)});
        }
        Ok(sum)
    }

    fn term(&mut self) -> Result<Value, String> {
        let value = if self.eats("if_not_exists") {
            self.expect("(");
            let attribute = self.operand();
            self.expect(",");
            let otherwise = self.operand();
            self.expect(")");
            attribute.or(otherwise)
        } else {
            self.operand()
        };
        value.cloned().ok_or_else(|| {
            "The provided expression refers to an attribute that does not exist in the item"
                .to_owned()
        })
    }
}

/// How two values compare; not at all where one is missing or they are of two types.
fn order(left: Option<&Value>, right: Option<&Value>) -> Option<Ordering> {
    if let (Some(left), Some(right)) = (text(left), text(right)) {
        return Some(left.cmp(right));
    }
    Some(number(left)?.cmp(&number(right)?))
}

fn text(value: Option<&Value>) -> Option<&str> {
    value?["S"].as_str()
}

/// A number in thousandths.
fn number(value: Option<&Value>) -> Option<i128> {
    let digits = value?["N"].as_str()?;
    let (whole, decimals) = digits.split_once('.').unwrap_or((digits, ""));
    let thousandths: i128 = format!("{decimals:0<3}").parse().unwrap();
    let whole: i128 = whole.parse().unwrap();
    Some(whole * 1_000 + if whole < 0 { -thousandths } else { thousandths })
}

fn written(thousandths: i128) -> String {
    match (thousandths / 1_000, thousandths % 1_000) {
        (whole, 0) => whole.to_string(),
        (whole, rest) => format!("{whole}.{rest:03}")
            .trim_end_matches('0')
            .to_owned(),
    }
}

fn tokens(expression: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = expression.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || "_#:".contains(c);
        let is_comparison = |c: char| "<=>".contains(c);
        let end = match first {
            c if is_word(c) => rest.find(|c| !is_word(c)),
            c if is_comparison(c) => rest.find(|c| !is_comparison(c)),
            _ => Some(1),
        };
        let (token, others) = rest.split_at(end.unwrap_or(rest.len()));
        tokens.push(token.to_owned());
        rest = others.trim_start();
    }
    tokens
}
