-- Neutron binds a port only where an agent of its mechanism driver lives. This row is such an agent, of the
-- host of Nova's compute, alive until 2099. So a server's ports are bound; their status stays DOWN, as nobody wires them.
INSERT INTO agents (id, agent_type, `binary`, topic, host, admin_state_up, created_at, started_at,
  heartbeat_timestamp, `load`, configurations)
VALUES (UUID(), 'Open vSwitch agent', 'neutron-openvswitch-agent', 'N/A', 'compute1', 1, NOW(), NOW(),
  '2099-01-01 00:00:00', 0, '{"bridge_mappings": {"physnet1": "br-ex"}, "tunnel_types": ["vxlan"],
  "tunneling_ip": "127.0.0.1", "datapath_type": "system", "ovs_hybrid_plug": false, "integration_bridge": "br-int",
  "vhostuser_socket_dir": "/var/run/openvswitch", "ovs_capabilities": {"datapath_types": ["system"], "iface_types": []}}');
