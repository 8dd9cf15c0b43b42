//! Whether a port can be reached from outside this machine, as the kernel tells it.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use anyhow::bail;

const LISTENING: &str = "0A";

/// Fails where one of the ports is open on an address other than a loopback one. Only Linux says; elsewhere the
/// preloaded `loopback.cjs` is trusted.
pub(super) fn only(ports: &[u16]) -> anyhow::Result<()> {
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let Ok(text) = fs::read_to_string(table) else {
            continue;
        };
        for (address, port) in text.lines().filter_map(listener) {
            if ports.contains(&port) && !address.is_loopback() {
                bail!("port {port} is open on {address}, not on 127.0.0.1 alone");
            }
        }
    }
    Ok(())
}

/// The address and port of a row of the table whose socket listens. Each 32 bits of an address stand there as the
/// number that this machine reads in them.
fn listener(row: &str) -> Option<(IpAddr, u16)> {
    let mut columns = row.split_whitespace().skip(1);
    let (address, port) = columns.next()?.split_once(':')?;
    if columns.nth(1)? != LISTENING {
        return None;
    }
    let words = address.as_bytes().chunks(8).map(|word| {
        let word = std::str::from_utf8(word).ok()?;
        Some(u32::from_str_radix(word, 16).ok()?.to_ne_bytes())
    });
    let bytes = words.collect::<Option<Vec<_>>>()?.concat();
    let address = match bytes.len() {
        4 => IpAddr::from(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        16 => IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)),
        _ => return None,
    };
    Some((address, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_port_of_127_0_0_1_cannot_be_reached_from_outside() {
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        only(&[socket.local_addr().unwrap().port()]).unwrap();
    }

    #[cfg(target_endian = "little")]
    mod rows_of_the_kernel {
        use super::*;

        #[test]
        fn a_listener_on_loopback() {
            let row = "   0: 0100007F:9FEF 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1";
            assert_eq!(listener(row), Some((Ipv4Addr::LOCALHOST.into(), 0x9FEF)));
        }

        #[test]
        fn a_listener_on_every_interface() {
            let row = "   1: 00000000000000000000000000000000:01BB 00000000000000000000000000000000:0000 0A 0 0 0";
            assert_eq!(listener(row), Some((Ipv6Addr::UNSPECIFIED.into(), 443)));
        }

        #[test]
        fn a_connection_is_no_listener() {
            assert_eq!(listener("   2: 0100007F:9FEF 0100007F:D431 01 0 0 0"), None);
        }

        #[test]
        fn the_heading_is_no_listener() {
            assert_eq!(
                listener("  sl  local_address rem_address   st tx_queue rx_queue"),
                None
            );
        }
    }
}
