from latlab.queues.sample.attach import in_flow_order


def test_stages_stand_in_the_order_of_the_flow() -> None:
    edges = [("strategy", "execution"), ("feed-a", "book"), ("feed-b", "book"), ("book", "strategy")]
    assert in_flow_order(edges) == ["feed-a", "feed-b", "book", "strategy", "execution"]


def test_stages_in_a_circle_are_all_there() -> None:
    assert sorted(in_flow_order([("a", "b"), ("b", "a"), ("b", "c"), ("", "a")])) == ["a", "b", "c"]
