"""A bidirectional LSTM on packed sequences with sparse embeddings: two optimizers in one step."""

import torch
from common import step
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(32, 8, sparse=True)
        self.lstm = nn.LSTM(8, 8, num_layers=2, bidirectional=True, dropout=0.2, batch_first=True)
        self.head = nn.Linear(16, 4)

    def forward(self, words, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(self.embedding(words), lengths, batch_first=True)
        hidden, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.head(hidden)


model = Tagger()
dense = [p for name, p in model.named_parameters() if "embedding" not in name]
sparse, others = torch.optim.SparseAdam([model.embedding.weight]), torch.optim.Adagrad(dense)
for number in range(3):
    words, lengths = torch.randint(32, (3, 5)), torch.tensor([5, 3, 2])
    loss = nn.functional.cross_entropy(model(words, lengths).flatten(0, 1), torch.randint(4, (15,)))
    model.zero_grad()
    loss.backward()
    sparse.step()
    others.step()
    step(number, loss)
