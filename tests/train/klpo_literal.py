"""KLPO's losses as the paper writes them, by autograd and trace after trace, importing nothing of `train/`."""

import torch

FLOOR = 1e-6


def literal_loss(traces, route, kl, beta):
    """The scalar of one route for traces of (reward, p, q, ps, qs): logprobs [T] of the sampled and [T, K] of the recorded.

    p and ps carry the graph; `kl` is "mc", "full", "topk" or "binary".
    """
    loss = TOKEN[kl] if route == "token" else SEQUENCE[kl]
    return sum(loss(*trace, beta) for trace in traces) / len(traces)


def _fixed(values):
    return values.detach()


def _ratio(p, q):
    """What the sampled token's score is multiplied by, the others taken as one: (1 - q) / (1 - p)."""
    return _fixed((1 - q.exp()) / (1 - p.exp()))


def _tails(ps, qs):
    return (1 - qs.exp().sum(1)).clamp(min=FLOOR), (1 - ps.exp().sum(1)).clamp(min=FLOOR)


def _kl_over(ps, qs):
    return torch.where(qs.isinf(), torch.zeros_like(ps), qs.exp() * (qs - ps)).sum(1)


def _token(score):
    def loss(reward, p, q, ps, qs, beta):
        return -(_fixed(reward - beta * (p - q)) * score(p, q, ps, qs)).sum()

    return loss


def _top_k_score(p, _q, ps, qs):
    behavior, current = _tails(ps, qs)
    shares = _fixed(qs.exp() - (behavior / current)[:, None] * ps.exp())
    return p - (shares * ps).sum(1)


TOKEN = {
    "mc": _token(lambda p, _q, ps, _qs: p - ps.mean(1)),
    "full": _token(lambda p, _q, ps, qs: p - (qs.exp() * ps).sum(1)),
    "topk": _token(_top_k_score),
    "binary": _token(lambda p, q, _ps, _qs: _ratio(p, q) * p),
}


def _sequence(kl):
    def loss(reward, p, q, ps, qs, beta):
        k = kl(ps, qs)
        return -_fixed(reward - beta * (p - q + k).sum()) * (p + k).sum()

    return loss


def _top_k_kl(ps, qs):
    behavior, current = _tails(ps, qs)
    return _kl_over(ps, qs) + behavior * (behavior / current).log()


def _draws(reward, p, q, ps, qs, beta):
    own = _fixed(reward - beta * ((p - q)[:, None] + qs - ps).sum(0))
    others = (own.sum() - own) / (len(own) - 1)
    return -(others * (p[:, None] - ps).sum(0)).mean()


def _binary(reward, p, q, _ps, _qs, beta):
    explained = (1 - q.exp()) * (p - q + (1 - q.exp()).log() - (1 - p.exp()).log())
    return -_fixed(reward - beta * explained.sum()) * (_ratio(p, q) * p).sum()


SEQUENCE = {"mc": _draws, "full": _sequence(_kl_over), "topk": _sequence(_top_k_kl), "binary": _binary}
