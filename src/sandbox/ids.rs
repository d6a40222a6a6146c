//! Ids, from a seed: the same calls on the same seed make the same ids.
use uuid::Uuid;

pub(super) struct Ids {
    random: fastrand::Rng,
}

impl Ids {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// A version 4 UUID, as Neutron makes them.
    pub(super) fn uuid(&mut self) -> Uuid {
        let bytes = self.random.u128(..).to_be_bytes();
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }

    /// 32 hexadecimal digits, as Keystone makes them.
    pub(super) fn hex(&mut self) -> String {
        self.uuid().simple().to_string()
    }

    /// A MAC address under Neutron's default prefix. 24 bits: a large cloud may see one twice on
    /// different networks, as a real one may.
    pub(super) fn mac(&mut self) -> [u8; 6] {
        let [a, b, c, _] = self.random.u32(..).to_be_bytes();
        [0xfa, 0x16, 0x3e, a, b, c]
    }
}
