package chart

// on is a set of labels.
func on(pairs ...string) map[string]string {
	labels := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		labels[pairs[i]] = pairs[i+1]
	}
	return labels
}

const (
	available = `purelb_address_pool_available{pool="default",family="IPv4"}`
	capacity  = `purelb_address_pool_capacity{pool="default",family="IPv4"}`
)

var (
	v4 = on("pool", "default", "family", "IPv4")
	a  = on("instance", "a")
)

// alertCases has cases for every alert of the chart.
var alertCases = []alertCase{
	{"PureLBNoLeader", map[string]string{`leader_election_master_status{name="purelb-allocator",instance="a"}`: "1x4 0x20"}, "4m", nil, "No allocator is the leader: new Services get no addresses"},
	{"PureLBNoLeader", map[string]string{`up{instance="other"}`: "1x20"}, "4m", nil, "No allocator is the leader: new Services get no addresses"},
	{"PureLBNoLeader", map[string]string{
		`leader_election_master_status{name="purelb-allocator",instance="a"}`: "1x8 0x20",
		`leader_election_master_status{name="purelb-allocator",instance="b"}`: "0x10 1x20",
	}, "4m", nil, ""},

	{"PureLBAddressNotAnnounced", map[string]string{
		`purelb_address_pool_addresses_in_use{pool="default"}`:                "3x20",
		`purelb_lbnodeagent_announced{ip="192.0.2.1",service="a/a",node="a"}`: "1x20",
		`purelb_lbnodeagent_announced{ip="192.0.2.2",service="a/b",node="b"}`: "1x4 stale",
	}, "3m", nil, "No node announces 2 addresses that Services have"},
	{"PureLBAddressNotAnnounced", map[string]string{
		`purelb_address_pool_addresses_in_use{pool="default"}`: "3x20",
	}, "3m", nil, "No node announces 3 addresses that Services have"},
	// Prometheus scrapes the allocator twice: by its ServiceMonitor and by the annotations of its pod.
	{"PureLBAddressNotAnnounced", map[string]string{
		`purelb_address_pool_addresses_in_use{pool="default",job="allocator-metrics"}`: "2x20",
		`purelb_address_pool_addresses_in_use{pool="default",job="kubernetes-pods"}`:   "2x20",
		`purelb_address_pool_addresses_in_use{pool="far",job="allocator-metrics"}`:     "1x20",
		`purelb_address_pool_addresses_in_use{pool="far",job="kubernetes-pods"}`:       "1x20",
		`purelb_lbnodeagent_announced{ip="192.0.2.1",service="a/a",node="a"}`:          "1x20",
		`purelb_lbnodeagent_announced{ip="192.0.2.2",service="a/b",node="b"}`:          "1x20",
		`purelb_lbnodeagent_announced{ip="192.0.2.3",service="a/c",node="b"}`:          "1x20",
	}, "3m", nil, ""},
	{"PureLBServicesWaiting", map[string]string{
		`purelb_services_waiting{pool="default",reason="exhausted",job="allocator-metrics"}`: "2x40",
		`purelb_services_waiting{pool="default",reason="exhausted",job="kubernetes-pods"}`:   "2x40",
	}, "8m", map[string]string{"pool": "default", "reason": "exhausted"}, "2 Services wait for an address from default: exhausted"},
	// A shared address, a remote address that all nodes announce, and a moving address.
	{"PureLBAddressNotAnnounced", map[string]string{
		`purelb_address_pool_addresses_in_use{pool="default"}`:                "3x20",
		`purelb_lbnodeagent_announced{ip="192.0.2.1",service="a/a",node="a"}`: "1x20",
		`purelb_lbnodeagent_announced{ip="192.0.2.1",service="a/b",node="a"}`: "1x20",
		`purelb_lbnodeagent_announced{ip="192.0.2.2",service="a/c",node="a"}`: "1x20",
		`purelb_lbnodeagent_announced{ip="192.0.2.2",service="a/c",node="b"}`: "1x20",
		`purelb_lbnodeagent_announced{ip="192.0.2.3",service="a/d",node="a"}`: "1x8 stale",
		`purelb_lbnodeagent_announced{ip="192.0.2.3",service="a/d",node="b"}`: "_x9 1x20",
	}, "2m30s", nil, ""},

	// A Service without endpoints, as all agents report, and a Service that no node can announce.
	{"PureLBAddressNotAnnounced", map[string]string{
		`purelb_address_pool_addresses_in_use{pool="default"}`:        "1x20",
		`purelb_lbnodeagent_addresses{state="withheld",instance="a"}`: "1x20",
		`purelb_lbnodeagent_addresses{state="withheld",instance="b"}`: "1x20",
	}, "3m", nil, ""},
	// The group of the announced addresses was deleted.
	{"PureLBAddressNotAnnounced", map[string]string{
		`purelb_address_pool_addresses_in_use{pool="default"}`:                "1x20",
		`purelb_lbnodeagent_announced{ip="192.0.2.1",service="a/a",node="a"}`: "1x20",
		`purelb_lbnodeagent_announced{ip="192.0.2.2",service="a/b",node="a"}`: "1x20",
		`purelb_lbnodeagent_announced_omitted{instance="a"}`:                  "0x20",
		`purelb_lbnodeagent_addresses{state="unplaced",instance="a"}`:         "1x20",
		`purelb_lbnodeagent_addresses{state="unplaced",instance="b"}`:         "1x20",
	}, "3m", nil, "No node announces 1 addresses that Services have"},
	// Agents with so many addresses that they export only counts.
	{"PureLBAddressNotAnnounced", map[string]string{
		`purelb_address_pool_addresses_in_use{pool="default"}`:        "5000x20",
		`purelb_lbnodeagent_announced_omitted{instance="a"}`:          "4998x20",
		`purelb_lbnodeagent_addresses{state="unplaced",instance="a"}`: "1x20",
		`purelb_lbnodeagent_addresses{state="unplaced",instance="b"}`: "1x20",
		`purelb_lbnodeagent_addresses{state="waiting",instance="a"}`:  "1x20",
		`purelb_lbnodeagent_addresses{state="waiting",instance="b"}`:  "0x20",
	}, "3m", nil, "No node announces 2 addresses that Services have"},
	{"PureLBAddressNotAnnounced", map[string]string{
		`purelb_address_pool_addresses_in_use{pool="default"}`:        "5000x20",
		`purelb_lbnodeagent_announced_omitted{instance="a"}`:          "5000x20",
		`purelb_lbnodeagent_addresses{state="unplaced",instance="a"}`: "0x20",
		`purelb_lbnodeagent_addresses{state="waiting",instance="a"}`:  "0x20",
	}, "3m", nil, ""},

	// A group with a /64 and a full IPv4 range.
	{"PureLBPoolAlmostExhausted", map[string]string{
		available: "0x80", capacity: "2x80",
		`purelb_address_pool_available{pool="default",family="IPv6"}`: "9223372036854775807x80",
		`purelb_address_pool_capacity{pool="default",family="IPv6"}`:  "9223372036854775807x80",
	}, "18m", v4, "ServiceGroup default has 0 free IPv4 addresses"},
	// A group in which nearly all addresses are held or blocked.
	{"PureLBPoolAlmostExhausted", map[string]string{
		available: "2x80", capacity: "11x80",
		`purelb_address_pool_size{pool="default"}`:             "256x80",
		`purelb_address_pool_addresses_in_use{pool="default"}`: "9x80",
	}, "18m", v4, "ServiceGroup default has 2 free IPv4 addresses"},
	{"PureLBPoolAlmostExhausted", map[string]string{available: "3x80", capacity: "11x80"}, "18m", nil, ""},
	{"PureLBPoolExhausted", map[string]string{available: "1x4 0x40", capacity: "9x44"}, "8m", v4, "ServiceGroup default has no free IPv4 address"},
	{"PureLBPoolExhausted", map[string]string{available: "0x40", capacity: "0x40"}, "8m", nil, ""}, // the whole pool is draining
	{"PureLBPoolExhaustedSoon", map[string]string{available: "400-0.1x2000", capacity: "1000x2000"}, "7h30m", v4, "At the rate of the last 6 hours, ServiceGroup default has no free IPv4 address in 4 days"},
	{"PureLBPoolExhaustedSoon", map[string]string{available: "400-0.01x2000", capacity: "1000x2000"}, "7h30m", nil, ""},
	// A few new Services in an empty group.
	{"PureLBPoolExhaustedSoon", map[string]string{available: "1000x100 990x1900", capacity: "1000x2000"}, "7h30m", nil, ""},

	// A Service that has waited for a long time, with one refusal.
	{"PureLBServicesWaiting", map[string]string{`purelb_services_waiting{pool="default",reason="exhausted"}`: "0 1x240"}, "50m", on("pool", "default", "reason", "exhausted"), "1 Services wait for an address from default: exhausted"},
	{"PureLBServicesWaiting", map[string]string{
		`purelb_services_waiting{pool="default",reason="exhausted"}`: "0x4 1x8 0x60",
		`purelb_services_waiting{pool="default",reason="partial"}`:   "1x80",
	}, "7m", nil, ""},
	{"PureLBAllocationRejected", map[string]string{`purelb_address_pool_allocation_rejected_total{pool="default",reason="exhausted"}`: "0x4 1x40"}, "5m", on("pool", "default", "reason", "exhausted"), "Services did not get an address from default: exhausted"},
	{"PureLBAllocationRejected", map[string]string{`purelb_address_pool_allocation_rejected_total{pool="default",reason="exhausted"}`: "7x40"}, "5m", nil, ""},
	{"PureLBAddressesQuarantined", map[string]string{`purelb_addresses_quarantined{instance="a"}`: "0 2x90"}, "20m", a, "Machines outside the cluster have 2 addresses of ServiceGroups"},
	{"PureLBAddressesQuarantined", map[string]string{`purelb_addresses_quarantined{instance="a"}`: "0 1x40 0x90"}, "20m", nil, ""},
	{"PureLBGroupOutOfScope", map[string]string{`purelb_servicegroups_out_of_scope{namespace="team",name="x",type="local"}`: "1x40"}, "8m", on("namespace", "team", "name", "x", "type", "local"), "ServiceGroup x in team is not used: PureLB does not use its namespace"},
	{"PureLBGroupOutOfScope", map[string]string{`purelb_servicegroups_out_of_scope{namespace="team",name="x",type="local"}`: "1x8 stale"}, "8m", nil, ""},

	{"PureLBConfigurationRefused", map[string]string{`purelb_configuration_refused{kind="ServiceGroup",namespace="purelb-system",name="x"}`: "1x40"}, "8m", on("kind", "ServiceGroup", "namespace", "purelb-system", "name", "x"), "ServiceGroup purelb-system/x cannot be used"},
	{"PureLBConfigurationRefused", map[string]string{`purelb_configuration_refused{kind="ServiceGroup",namespace="purelb-system",name="x"}`: "1x8 stale"}, "8m", nil, ""},

	{"PureLBIPAMUnhealthy", map[string]string{`purelb_backend_healthy{pool="default"}`: "1x4 0x40"}, "8m", on("pool", "default"), "NetBox or the IPAM server of ServiceGroup default does not work"},
	{"PureLBIPAMUnhealthy", map[string]string{`purelb_backend_healthy{pool="default"}`: "1x4 0x4 1x40"}, "8m", nil, ""},
	{"PureLBIPAMSlow", map[string]string{
		`purelb_netbox_request_duration_seconds_bucket{call="claim",le="2.5"}`:  "0+1x120",
		`purelb_netbox_request_duration_seconds_bucket{call="claim",le="5"}`:    "0+4x120",
		`purelb_netbox_request_duration_seconds_bucket{call="claim",le="+Inf"}`: "0+4x120",
	}, "25m", on("call", "claim"), "One in twenty requests to NetBox or to an IPAM server takes more than 4.8 s"},
	{"PureLBIPAMSlow", map[string]string{
		`purelb_allocator_sidecar_rpc_duration_seconds_bucket{socket="s",method="Allocate",le="2.5"}`:  "0+1x120",
		`purelb_allocator_sidecar_rpc_duration_seconds_bucket{socket="s",method="Allocate",le="5"}`:    "0+4x120",
		`purelb_allocator_sidecar_rpc_duration_seconds_bucket{socket="s",method="Allocate",le="+Inf"}`: "0+4x120",
	}, "25m", on("socket", "s", "method", "Allocate"), "One in twenty requests to NetBox or to an IPAM server takes more than 4.8 s"},
	{"PureLBIPAMSlow", map[string]string{
		`purelb_netbox_request_duration_seconds_bucket{call="claim",le="0.1"}`:  "0+4x120",
		`purelb_netbox_request_duration_seconds_bucket{call="claim",le="+Inf"}`: "0+4x120",
	}, "25m", nil, ""},
	{"PureLBIPAMOrphans", map[string]string{`purelb_backend_orphans{pool="default"}`: "2x200"}, "40m", on("pool", "default"), "2 addresses of ServiceGroup default are held for no Service"},
	{"PureLBIPAMOrphans", map[string]string{`purelb_backend_orphans{pool="default"}`: "2x60 0x200"}, "40m", nil, ""},
	{"PureLBVersionSkew", map[string]string{
		`purelb_build_info{component="allocator",version="1.2.0",instance="a"}`:   "1x300",
		`purelb_build_info{component="lbnodeagent",version="1.1.0",instance="b"}`: "1x300",
	}, "70m", nil, "2 releases of PureLB run at the same time"},
	{"PureLBVersionSkew", map[string]string{
		`purelb_build_info{component="allocator",version="1.2.0",instance="a"}`:   "1x300",
		`purelb_build_info{component="lbnodeagent",version="1.1.0",instance="b"}`: "1x60 stale",
		`purelb_build_info{component="lbnodeagent",version="1.2.0",instance="b"}`: "_x61 1x300",
	}, "70m", nil, ""},

	{"PureLBAddressAnnouncedTwice", map[string]string{
		`purelb_lbnodeagent_announced_local{ip="192.0.2.1",service="a/a",node="a"}`: "1x20",
		`purelb_lbnodeagent_announced_local{ip="192.0.2.1",service="a/a",node="b"}`: "1x20",
	}, "3m", on("ip", "192.0.2.1"), "2 nodes announce 192.0.2.1, but only one should"},
	// A shared address, a handover, and a remote address.
	{"PureLBAddressAnnouncedTwice", map[string]string{
		`purelb_lbnodeagent_announced_local{ip="192.0.2.1",service="a/a",node="a"}`: "1x20",
		`purelb_lbnodeagent_announced_local{ip="192.0.2.1",service="a/b",node="a"}`: "1x20",
		`purelb_lbnodeagent_announced_local{ip="192.0.2.2",service="a/c",node="a"}`: "1x4 stale",
		`purelb_lbnodeagent_announced_local{ip="192.0.2.2",service="a/c",node="b"}`: "_x4 1x20",
		`purelb_lbnodeagent_announced{ip="192.0.2.3",service="a/d",node="a"}`:       "1x20",
		`purelb_lbnodeagent_announced{ip="192.0.2.3",service="a/d",node="b"}`:       "1x20",
	}, "1m15s", nil, ""},
	// A node gave the address up, and its next scrape is a minute later.
	{"PureLBAddressAnnouncedTwice", map[string]string{
		`purelb_lbnodeagent_announced_local{ip="192.0.2.1",service="a/a",node="a"}`: "1x8 stale",
		`purelb_lbnodeagent_announced_local{ip="192.0.2.1",service="a/a",node="b"}`: "_x4 1x20",
	}, "2m", nil, ""},
	{"PureLBAddressMoves", map[string]string{
		`purelb_election_winner_changes_total{service="a/a",instance="a"}`: "0+1x40",
		`purelb_election_winner_changes_total{service="a/a",instance="b"}`: "0x40",
	}, "10m", on("service", "a/a"), "Addresses of a/a move from node to node"},
	{"PureLBAddressMoves", map[string]string{`purelb_election_winner_changes_total{service="a/a",instance="a"}`: "0x10 2x40"}, "10m", nil, ""},
	{"PureLBForeignMAC", map[string]string{`purelb_lbnodeagent_address_conflicts_total{instance="a"}`: "0x8 1x40"}, "5m", a, "Another machine claims an address of agent a"},
	{"PureLBForeignMAC", map[string]string{`purelb_lbnodeagent_address_conflicts_total{instance="a"}`: "1x48"}, "5m", nil, ""},
	{"PureLBNoAgents", map[string]string{`purelb_lbnodeagent_pass_errors_total{instance="a"}`: "0x4 stale"}, "8m", nil, "No metrics of agents: no agent runs, or Prometheus does not reach them"},
	{"PureLBNoAgents", map[string]string{`purelb_lbnodeagent_pass_errors_total{instance="a"}`: "0x40"}, "8m", nil, ""},
	{"PureLBAgentGone", map[string]string{
		`purelb_gossip_members{state="dead",instance="a"}`: "0x4 1x40",
		`purelb_gossip_members{state="dead",instance="b"}`: "0x44",
	}, "8m", nil, "Up to 1 agents are silent, and have not left the gossip"},
	{"PureLBAgentGone", map[string]string{`purelb_gossip_members{state="left",instance="a"}`: "1x40", `purelb_gossip_members{state="dead",instance="a"}`: "0x40"}, "8m", nil, ""},
	{"PureLBAgentCutOff", map[string]string{`purelb_election_member_count{instance="a"}`: "1x40", `purelb_election_member_count{instance="b"}`: "3x40"}, "8m", a, "Agent a sees 1 live nodes, and is cut off from others"},
	{"PureLBAgentCutOff", map[string]string{`purelb_election_member_count{instance="a"}`: "3x4 2x40", `purelb_election_member_count{instance="b"}`: "3x5 2x40"}, "8m", nil, ""},
	{"PureLBLeasesInsteadOfGossip", map[string]string{
		`purelb_election_view{source="lease",instance="a"}`: "1x60", `purelb_gossip_patience_seconds{instance="a"}`: "0.4x60",
		`purelb_election_member_count{instance="a"}`: "2x60",
	}, "14m", on("source", "lease", "instance", "a"), "Agent a does not hear all others: dead nodes are found late"},
	{"PureLBLeasesInsteadOfGossip", map[string]string{ // gossip is off
		`purelb_election_view{source="lease",instance="a"}`: "1x60", `purelb_gossip_patience_seconds{instance="a"}`: "0x60",
		`purelb_election_member_count{instance="a"}`: "2x60",
	}, "14m", nil, ""},
	{"PureLBLeasesInsteadOfGossip", map[string]string{ // a single node has no other node to hear
		`purelb_election_view{source="lease",instance="a"}`: "1x60", `purelb_gossip_patience_seconds{instance="a"}`: "0.4x60",
		`purelb_election_member_count{instance="a"}`: "1x60",
	}, "14m", nil, ""},
	{"PureLBLeaseUnhealthy", map[string]string{`purelb_election_lease_healthy{instance="a"}`: "0x40"}, "3m", a, "Agent a cannot renew its Lease"},
	{"PureLBLeaseUnhealthy", map[string]string{`purelb_election_lease_healthy{instance="a"}`: "1x4 0x2 1x40"}, "3m", nil, ""},
	{"PureLBAgentConfigurationInvalid", map[string]string{`purelb_lbnodeagent_selector_state{state="invalid",instance="a"}`: "1x40"}, "8m", on("state", "invalid", "instance", "a"), "Agent a cannot use the LBNodeAgent of its node"},
	{"PureLBAgentConfigurationInvalid", map[string]string{`purelb_lbnodeagent_selector_state{state="deselected",instance="a"}`: "1x40"}, "8m", nil, ""},
	{"PureLBAgentFailing", map[string]string{`purelb_lbnodeagent_pass_errors_total{instance="a"}`: "0+1x120"}, "25m", a, "Agent a fails again and again"},
	{"PureLBAgentFailing", map[string]string{`purelb_lbnodeagent_pass_errors_total{instance="a"}`: "0x40 3x80"}, "25m", nil, ""},

	{"PureLBBGPSessionDown", map[string]string{`k8gobgp_neighbor_healthy{instance="a", neighbor="192.0.2.1"}`: "0x40", `k8gobgp_neighbor_healthy{instance="a", neighbor="192.0.2.2"}`: "1x40"}, "8m", on("instance", "a", "neighbor", "192.0.2.1"), "Speaker a has no BGP session with 192.0.2.1, or no BFD although it is configured"},
	{"PureLBBGPSessionDown", map[string]string{`k8gobgp_neighbor_healthy{instance="a", neighbor="192.0.2.1"}`: "1x4 0x4 1x40"}, "8m", nil, ""},
	{"PureLBBGPSessionFlaps", map[string]string{`k8gobgp_neighbors_established_total{instance="a"}`: "2 1 2 1 2 1 2x40"}, "8m", a, "BGP sessions of speaker a come and go"},
	{"PureLBBGPSessionFlaps", map[string]string{`k8gobgp_neighbors_established_total{instance="a"}`: "2 1 2x40"}, "8m", nil, ""},
	{"PureLBBFDDown", map[string]string{`k8gobgp_bfd_sessions{state="Down",instance="a"}`: "0x4 1x40"}, "4m", on("state", "Down", "instance", "a"), "Speaker a does not hear 1 routers by BFD"},
	{"PureLBBFDDown", map[string]string{`k8gobgp_bfd_sessions{state="AdminDown",instance="a"}`: "1x40", `k8gobgp_bfd_sessions{state="Down",instance="a"}`: "0x4 1x2 0x40"}, "4m", nil, ""},
	{"PureLBBFDFlaps", map[string]string{`k8gobgp_bfd_session_down_total{neighbor="r",instance="a"}`: "0+1x40"}, "8m", on("neighbor", "r", "instance", "a"), "BFD between speaker a and r comes and goes"},
	{"PureLBBFDFlaps", map[string]string{`k8gobgp_bfd_session_down_total{neighbor="r",instance="a"}`: "0x10 1x40"}, "8m", nil, ""},
	// Two flaps, scraped twice.
	{"PureLBBFDFlaps", map[string]string{
		`k8gobgp_bfd_session_down_total{neighbor="r",instance="a",job="k8gobgp"}`:         "0x10 2x40",
		`k8gobgp_bfd_session_down_total{neighbor="r",instance="a",job="kubernetes-pods"}`: "0x10 2x40",
	}, "8m", nil, ""},
	{"PureLBRoutesMissing", map[string]string{
		`k8gobgp_unannounced_addresses{family="ipv6-unicast",instance="a"}`: "3x40", `k8gobgp_unannounced_addresses{family="ipv4-unicast",instance="a"}`: "0x40",
	}, "4m", on("family", "ipv6-unicast", "instance", "a"), "Speaker a announces 3 addresses of ipv6-unicast to no router"},
	{"PureLBRoutesMissing", map[string]string{`k8gobgp_unannounced_addresses{family="ipv6-unicast",instance="a"}`: "0x8 3 0x40"}, "4m", nil, ""},
	{"PureLBBGPConfigurationNotReady", map[string]string{`k8gobgp_configuration_ready{name="default",namespace="purelb-system",instance="a"}`: "0x40"}, "8m", on("name", "default", "namespace", "purelb-system", "instance", "a"), "BGPConfiguration default is not in effect on speaker a"},
	{"PureLBBGPConfigurationNotReady", map[string]string{`k8gobgp_configuration_ready{name="default",namespace="purelb-system",instance="a"}`: "1x40"}, "8m", nil, ""},
}
