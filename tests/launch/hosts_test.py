"""Ranks on several hosts: the same tokens, the right network, and the messages for unreachable hosts."""
import hosts
import launches


class SeveralHosts(launches.Launches):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.group = cls.enterClassContext(hosts.Hosts(2))
        cls.group.add_blind_interface()

    def mpirun(self, ranks, arguments, *options):
        return self.run_command([*self.group.mpirun(ranks, options), launches.PROGRAM, *arguments])

    def test_one_rank_on_each_of_two_hosts(self):
        done = self.mpirun([1, 1], self.arguments("hosts11"))
        self.expect_tokens(done, "hosts11", 2)
        # The bridge with the same address on every host is listed before net0, and has no connection.
        self.expect_words(done, "2 ranks on 2 hosts", "0 node0 0/1 cpu", "1 node1 0/1 cpu",
                          "control plane: node0 (net0 10.77.0.1/24), node1 (net0 10.77.0.2/24)")

    def test_two_ranks_on_each_of_two_hosts(self):
        self.expect_tokens(self.mpirun([2, 2], self.arguments("hosts22")), "hosts22", 4)

    def test_the_network_may_be_named_in_two_ways(self):
        for wanted in ("net0", hosts.SUBNET):
            with self.subTest(interface=wanted):
                done = self.mpirun([1, 1], self.arguments("named", "--interface", wanted))
                self.expect_tokens(done, "named", 2)

    def test_uneven_hosts_are_told(self):
        done = self.mpirun([2, 1], self.arguments("uneven"))
        self.expect_tokens(done, "uneven", 3)
        self.expect_words(done, "the hosts are uneven: 2 ranks on node0, 1 rank on node1", "a multiple of 2 ranks")

    def test_a_network_that_leads_nowhere_is_named_with_both_ends(self):
        done = self.mpirun([1, 1], self.arguments("blind", "--interface", "blind0"))
        self.expect_refusal(done, "rank 1: cannot reach the coordinator of rank 0 at 172.30.0.1:",
                            "on node0 (blind0 172.30.0.1/16) from node1 (blind0 172.30.0.1/16)", "refused",
                            "--interface NAME, ADDRESS or SUBNET")

    def test_an_address_without_an_answer_ends_within_the_deadline(self):
        self.group[0].ip("link add lonely0 type veth peer name lonely1")
        self.group[0].ip("addr add 10.88.0.1/24 dev lonely0")
        self.group[0].ip("link set lonely0 up")
        self.group[1].ip("route add 10.88.0.1 via 10.77.0.99 dev net0")  # through a missing gateway
        done = self.mpirun([1, 1], self.arguments("lonely", "--interface", "10.88.0.1", deadline=4))
        self.expect_refusal(done, "cannot reach the coordinator of rank 0 at 10.88.0.1:", "from node1: found 'no answer",
                            "--interface")


class HostsWithoutIpv4(launches.Launches):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.group = cls.enterClassContext(hosts.Hosts(2, ipv6=True))

    def test_one_rank_on_each_of_two_hosts(self):
        done = self.run_command([*self.group.mpirun([1, 1]), launches.PROGRAM, *self.arguments("ipv6")])
        self.expect_tokens(done, "ipv6", 2)
        self.expect_words(done, "control plane: node0 (net0 fd77::1/64), node1 (net0 fd77::2/64)")

    def test_the_network_may_be_named_in_three_ways(self):
        words = self.group.mpirun([1, 1])
        place = words.index("btl_tcp_if_include")
        del words[place - 1:place + 2]  # the program names it to MPI, too
        for wanted in ("net0", "fd77::1", hosts.SUBNET_OF_IPV6):
            with self.subTest(interface=wanted):
                done = self.run_command([*words, launches.PROGRAM, *self.arguments("named6", "--interface", wanted)])
                self.expect_tokens(done, "named6", 2)


if __name__ == "__main__":
    launches.start_tests(hosts.why_not())
