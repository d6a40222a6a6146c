//! Ids generated from a seed: the same calls on the same seed make the same ids.
use uuid::Uuid;

pub(crate) struct Ids {
    random: fastrand::Rng,
}

impl Ids {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// Returns a version 4 UUID, as Neutron makes them.
    pub(crate) fn uuid(&mut self) -> Uuid {
        let bytes = self.random.u128(..).to_be_bytes();
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }

    /// Returns 32 hexadecimal digits, as Keystone makes them.
    pub(crate) fn hex(&mut self) -> String {
        self.uuid().simple().to_string()
    }

    /// Returns a MAC address under Neutron's default prefix. Its 24 random bits may repeat on different
    /// networks of a large cloud, as they may in a real one.
    pub(crate) fn mac(&mut self) -> String {
        let [a, b, c, _] = self.random.u32(..).to_be_bytes();
        format!("fa:16:3e:{a:02x}:{b:02x}:{c:02x}")
    }
}
