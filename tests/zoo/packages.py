"""Small networks of torchvision, timm, transformers and torch_geometric, built from configs without a download."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from credo import Graph, Stream
from zoo.entry import Entry

N = 6


def images(size: int = 32) -> Tensor:
    return Stream(1).normal(N, 3, size, size)


def classes(*shape: int) -> Tensor:
    return Stream(2).permutation(N * max(1, torch.Size(shape).numel())).reshape(N, *shape) % 3


def words(length: int = 6) -> dict[str, Tensor]:
    ids = Stream(3).permutation(N * length).reshape(N, length) % 40 + 2
    mask = (torch.arange(length) < torch.tensor([length, 4, 5, length, 3, 4]).unsqueeze(1)).long()
    return {"input_ids": torch.where(mask == 1, ids, 1), "attention_mask": mask}


def torchvision_entries() -> dict[str, Entry]:
    from torchvision.models import (
        convnext,
        densenet,
        efficientnet,
        mobilenetv2,
        regnet,
        segmentation,
        shufflenetv2,
        swin_transformer,
        vision_transformer,
    )

    def seen(make: Callable[[], nn.Module], size: int = 32, y: Tensor | None = None, **more: Any) -> Entry:
        return Entry(make, images(size), classes() if y is None else y, **more)

    class Backbone(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU())

        def forward(self, x: Tensor) -> dict[str, Tensor]:
            return {"out": self.body(x), "aux": self.body(x)}

    def fcn() -> nn.Module:
        head = segmentation.fcn.FCNHead
        return segmentation.FCN(Backbone(), head(8, 3), head(8, 3))

    blocks = [efficientnet.MBConvConfig(1, 3, 1, 8, 8, 1), efficientnet.MBConvConfig(4, 3, 2, 8, 8, 2)]
    next_blocks = [convnext.CNBlockConfig(8, 16, 1), convnext.CNBlockConfig(16, None, 2)]
    swin = {"patch_size": [4, 4], "embed_dim": 8, "depths": [1, 2], "num_heads": [1, 2], "window_size": [2, 2]}
    vit = {"image_size": 16, "patch_size": 8, "num_layers": 2, "num_heads": 2, "hidden_dim": 8, "mlp_dim": 16}
    return {
        "EfficientNet": seen(lambda: efficientnet.EfficientNet(blocks, 0.2, stochastic_depth_prob=0.3, num_classes=3)),
        "ConvNeXt": seen(lambda: convnext.ConvNeXt(next_blocks, stochastic_depth_prob=0.3, num_classes=3)),
        "SwinTransformer": seen(
            lambda: swin_transformer.SwinTransformer(**swin, num_classes=3, dropout=0.1, stochastic_depth_prob=0.2)
        ),
        "VisionTransformer": seen(
            lambda: vision_transformer.VisionTransformer(**vit, num_classes=3, dropout=0.1, attention_dropout=0.1), 16
        ),
        "DenseNet": seen(lambda: densenet.DenseNet(4, (2, 2), 8, drop_rate=0.1, num_classes=3)),
        "MobileNetV2": seen(lambda: mobilenetv2.MobileNetV2(num_classes=3, width_mult=0.1)),
        "ShuffleNetV2": seen(lambda: shufflenetv2.ShuffleNetV2([1, 1, 1], [8, 16, 32, 64, 64], num_classes=3)),
        "RegNet": seen(
            lambda: regnet.RegNet(regnet.BlockParams([1, 1], [8, 16], [4, 4], [1, 1], [2, 2]), num_classes=3)
        ),
        "FCN": seen(fcn, 16, classes(16, 16)),
    }


def timm_entries() -> dict[str, Entry]:
    import timm
    from timm.models import mlp_mixer

    vit = {"img_size": 16, "patch_size": 8, "embed_dim": 8, "depth": 2, "num_heads": 2}
    small = {
        "vit": ("vit_tiny_patch16_224", {**vit, "drop_path_rate": 0.2, "attn_drop_rate": 0.1, "proj_drop_rate": 0.1}),
        "deit": ("deit_tiny_patch16_224", {**vit, "drop_path_rate": 0.2}),
        "convnext": ("convnext_atto", {"dims": (8, 8, 8, 8), "depths": (1, 1, 1, 1), "drop_path_rate": 0.2}),
        "swin": (
            "swin_tiny_patch4_window7_224",
            {"img_size": 16, "window_size": 2, "embed_dim": 8, "depths": (1, 1), "num_heads": (1, 2)},
        ),
        "cait": ("cait_xxs24_224", {**vit, "depth": 2, "drop_path_rate": 0.1}),
        "resnet with drop block": (
            "resnet10t",
            {
                "drop_path_rate": 0.2,
                "drop_block_rate": 0.2,
                "block_args": {},
                "channels": (8, 8, 8, 8),
                "stem_width": 4,
            },
        ),
        "beit": ("beit_base_patch16_224", {**vit, "drop_path_rate": 0.1}),
    }
    entries = {}
    for name, (model, options) in small.items():
        size = options.get("img_size", 32)
        entries[name] = Entry(
            lambda model=model, options=options: timm.create_model(model, num_classes=3, **options),
            images(size),
            classes(),
        )
    mixer = {"img_size": 16, "patch_size": 8, "embed_dim": 8, "num_blocks": 2}
    entries["mixer"] = Entry(
        lambda: mlp_mixer.MlpMixer(num_classes=3, **mixer, drop_path_rate=0.2), images(16), classes()
    )
    checkpointed = entries["vit"]

    def with_checkpoints() -> nn.Module:
        module = checkpointed.make()
        module.set_grad_checkpointing()
        return module

    entries["checkpointed vit"] = Entry(with_checkpoints, checkpointed.x, checkpointed.y)
    return entries


def transformers_entries() -> dict[str, Entry]:
    import transformers as t

    small = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    text = {**small, "vocab_size": 50, "num_labels": 3, "pad_token_id": 1, "max_position_embeddings": 32}
    gpt = {
        "n_embd": 8,
        "n_layer": 2,
        "n_head": 2,
        "vocab_size": 50,
        "num_labels": 3,
        "pad_token_id": 1,
        "n_positions": 16,
    }
    bart = {
        **{"d_model": 8, "encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 2, "num_labels": 3},
        **{"decoder_attention_heads": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "vocab_size": 50},
        **{"pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2, "max_position_embeddings": 32},
    }
    wav = {
        **small,
        **{"conv_dim": (8, 8), "conv_stride": (4, 4), "conv_kernel": (8, 8), "num_feat_extract_layers": 2},
        **{
            "num_conv_pos_embeddings": 4,
            "num_conv_pos_embedding_groups": 2,
            "classifier_proj_size": 8,
            "num_labels": 3,
        },
        **{"mask_time_prob": 0.0},
    }

    def checkpointed() -> nn.Module:
        module = t.BertForSequenceClassification(t.BertConfig(**text))
        module.gradient_checkpointing_enable()
        return module.train()

    tokens = words()
    llama = {**text, "num_key_value_heads": 2}
    return {
        "Bert": Entry(lambda: t.BertForSequenceClassification(t.BertConfig(**text)), tokens, classes()),
        "eager Bert": Entry(
            lambda: t.BertForSequenceClassification(t.BertConfig(**text, attn_implementation="eager")),
            tokens,
            classes(),
        ),
        "Bert for tokens": Entry(lambda: t.BertForTokenClassification(t.BertConfig(**text)), tokens, classes(6)),
        "checkpointed Bert": Entry(checkpointed, tokens, classes()),
        "Roberta": Entry(lambda: t.RobertaForSequenceClassification(t.RobertaConfig(**text)), tokens, classes()),
        "DistilBert": Entry(
            lambda: t.DistilBertForSequenceClassification(
                t.DistilBertConfig(dim=8, n_layers=2, n_heads=2, hidden_dim=16, vocab_size=50, num_labels=3)
            ),
            tokens,
            classes(),
        ),
        "Albert": Entry(
            lambda: t.AlbertForSequenceClassification(t.AlbertConfig(**{**text, "embedding_size": 8})),
            tokens,
            classes(),
        ),
        "Electra": Entry(
            lambda: t.ElectraForSequenceClassification(t.ElectraConfig(**{**text, "embedding_size": 8})),
            tokens,
            classes(),
        ),
        "DebertaV2": Entry(lambda: t.DebertaV2ForSequenceClassification(t.DebertaV2Config(**text)), tokens, classes()),
        "GPT2": Entry(lambda: t.GPT2ForSequenceClassification(t.GPT2Config(**gpt)), tokens, classes()),
        "GPT2, next words": Entry(
            lambda: t.GPT2LMHeadModel(t.GPT2Config(**{**gpt, "vocab_size": 50})), tokens, tokens["input_ids"]
        ),
        "Llama": Entry(lambda: t.LlamaForSequenceClassification(t.LlamaConfig(**llama)), tokens, classes()),
        "T5": Entry(
            lambda: t.T5ForTokenClassification(
                t.T5Config(d_model=8, d_kv=4, d_ff=16, num_layers=2, num_heads=2, vocab_size=50, num_labels=3)
            ),
            tokens,
            classes(6),
        ),
        "Bart": Entry(
            lambda: t.BartForConditionalGeneration(t.BartConfig(**bart)),
            {**tokens, "decoder_input_ids": tokens["input_ids"]},
            tokens["input_ids"],
        ),
        "Bart with layer drop": Entry(
            lambda: t.BartForConditionalGeneration(t.BartConfig(**bart, encoder_layerdrop=0.5)),
            {**tokens, "decoder_input_ids": tokens["input_ids"]},
            tokens["input_ids"],
        ),
        "Wav2Vec2": Entry(
            lambda: t.Wav2Vec2ForSequenceClassification(t.Wav2Vec2Config(**wav, layerdrop=0.0)),
            Stream(4).normal(N, 400),
            classes(),
        ),
        "ViT": Entry(
            lambda: t.ViTForImageClassification(t.ViTConfig(**small, image_size=16, patch_size=8, num_labels=3)),
            images(16),
            classes(),
        ),
        "Swin": Entry(
            lambda: t.SwinForImageClassification(
                t.SwinConfig(
                    image_size=16,
                    patch_size=4,
                    embed_dim=8,
                    depths=[1, 2],
                    num_heads=[1, 2],
                    window_size=2,
                    num_labels=3,
                )
            ),
            images(16),
            classes(),
        ),
        "ConvNext": Entry(
            lambda: t.ConvNextForImageClassification(
                t.ConvNextConfig(hidden_sizes=[8, 8], depths=[1, 2], num_stages=2, drop_path_rate=0.2, num_labels=3)
            ),
            images(16),
            classes(),
        ),
        "Segformer": Entry(
            lambda: t.SegformerForSemanticSegmentation(
                t.SegformerConfig(
                    num_encoder_blocks=2,
                    depths=[1, 1],
                    sr_ratios=[2, 1],
                    hidden_sizes=[8, 8],
                    patch_sizes=[3, 3],
                    strides=[2, 2],
                    num_attention_heads=[1, 2],
                    mlp_ratios=[2, 2],
                    decoder_hidden_size=8,
                    num_labels=3,
                )
            ),
            images(16),
            classes(8, 8),
        ),
    }


def graph_entries() -> dict[str, Entry]:
    import torch_geometric.nn as g

    edges = torch.tensor([[0, 1, 2, 3, 4, 5, 0, 2], [1, 2, 3, 4, 5, 0, 3, 5]])
    x, y = Graph({"x": Stream(5).normal(N, 4), "edge_index": edges}), classes()
    options = {"in_channels": 4, "hidden_channels": 8, "num_layers": 2, "out_channels": 3, "dropout": 0.3}
    return {
        "GCN": Entry(lambda: g.GCN(**options), x, y),
        "GAT": Entry(lambda: g.GAT(**options), x, y),
        "GraphSAGE": Entry(lambda: g.GraphSAGE(**options), x, y),
        "GIN": Entry(lambda: g.GIN(**options), x, y),
        "GCN with batch norm": Entry(lambda: g.GCN(**options, norm="batch_norm"), x, y),
    }


PACKAGES = {
    "torchvision": torchvision_entries,
    "timm": timm_entries,
    "transformers": transformers_entries,
    "torch_geometric": graph_entries,
}
