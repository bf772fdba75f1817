"""The papers and data sets behind the pieces. A field that is not certain is left out."""

Entry = tuple[str, dict[str, str]]

ENTRIES: dict[str, Entry] = {
    "mcmahan2017communication": (
        "inproceedings",
        {
            "title": "Communication-Efficient Learning of Deep Networks from Decentralized Data",
            "author": "McMahan, Brendan and Moore, Eider and Ramage, Daniel and Hampson, Seth and "
            'Ag{\\"u}era y Arcas, Blaise',
            "booktitle": "Artificial Intelligence and Statistics",
            "pages": "1273--1282",
            "publisher": "PMLR",
            "year": "2017",
        },
    ),
    "li2020federated": (
        "inproceedings",
        {
            "title": "Federated Optimization in Heterogeneous Networks",
            "author": "Li, Tian and Sahu, Anit Kumar and Zaheer, Manzil and Sanjabi, Maziar and Talwalkar, Ameet and "
            "Smith, Virginia",
            "booktitle": "Proceedings of the 3rd MLSys Conference",
            "year": "2020",
        },
    ),
    "karimireddy2020scaffold": (
        "inproceedings",
        {
            "title": "{SCAFFOLD}: Stochastic Controlled Averaging for Federated Learning",
            "author": "Karimireddy, Sai Praneeth and Kale, Satyen and Mohri, Mehryar and Reddi, Sashank J. and "
            "Stich, Sebastian U. and Suresh, Ananda Theertha",
            "booktitle": "International Conference on Machine Learning",
            "pages": "5132--5143",
            "publisher": "PMLR",
            "year": "2020",
        },
    ),
    "li2019feddane": (
        "inproceedings",
        {
            "title": "{FedDANE}: A Federated {Newton}-Type Method",
            "author": "Li, Tian and Sahu, Anit Kumar and Zaheer, Manzil and Sanjabi, Maziar and Talwalkar, Ameet and "
            "Smith, Virginia",
            "booktitle": "53rd Asilomar Conference on Signals, Systems, and Computers",
            "pages": "1227--1231",
            "publisher": "IEEE",
            "year": "2019",
        },
    ),
    "reddi2021adaptive": (
        "inproceedings",
        {
            "title": "Adaptive Federated Optimization",
            "author": "Reddi, Sashank and Charles, Zachary and Zaheer, Manzil and Garrett, Zachary and Rush, Keith and "
            "Kone{\\v{c}}n{\\'y}, Jakub and Kumar, Sanjiv and McMahan, H. Brendan",
            "booktitle": "International Conference on Learning Representations",
            "year": "2021",
        },
    ),
    "mohammadi2021differential": (
        "article",
        {
            "title": "Differential Privacy Meets Federated Learning under Communication Constraints",
            "author": "Mohammadi, Nima and Bai, Jianan and Fan, Qiang and Song, Yifei and Yi, Yang and Liu, Lingjia",
            "journal": "arXiv preprint arXiv:2101.12240",
            "year": "2021",
        },
    ),
    "chang_necessity": (
        "misc",
        {
            "title": "On the Necessity of Aligning Gradients for Wireless Federated Learning",
            "author": "Chang, Wei-Ting and Mohamed, Mohamed Seif Eldin and Tandon, Ravi",
        },
    ),
    "zhang2021understanding": (
        "article",
        {
            "title": "Understanding Clipping for Federated Learning: Convergence and Client-Level Differential Privacy",
            "author": "Zhang, Xinwei and Chen, Xiangyi and Hong, Mingyi and Wu, Zhiwei Steven and Yi, Jinfeng",
            "journal": "arXiv preprint arXiv:2106.13673",
            "year": "2021",
        },
    ),
    "deng2021convergence": (
        "article",
        {
            "title": "On Convergence of Federated Averaging {Langevin} Dynamics",
            "author": "Deng, Wei and Zhang, Qian and Ma, Yi-An and Song, Zhao and Lin, Guang",
            "journal": "arXiv preprint arXiv:2112.05120",
            "year": "2021",
        },
    ),
    "alpaydin1998optical": (
        "misc",
        {
            "title": "Optical Recognition of Handwritten Digits",
            "author": "Alpaydin, Ethem and Kaynak, Cenk",
            "howpublished": "UCI Machine Learning Repository",
            "year": "1998",
        },
    ),
    "lecun1998gradient": (
        "article",
        {
            "title": "Gradient-Based Learning Applied to Document Recognition",
            "author": "LeCun, Yann and Bottou, L{\\'e}on and Bengio, Yoshua and Haffner, Patrick",
            "journal": "Proceedings of the IEEE",
            "volume": "86",
            "number": "11",
            "pages": "2278--2324",
            "year": "1998",
        },
    ),
    "xiao2017fashion": (
        "article",
        {
            "title": "{Fashion-MNIST}: a Novel Image Dataset for Benchmarking Machine Learning Algorithms",
            "author": "Xiao, Han and Rasul, Kashif and Vollgraf, Roland",
            "journal": "arXiv preprint arXiv:1708.07747",
            "year": "2017",
        },
    ),
    "cohen2017emnist": (
        "inproceedings",
        {
            "title": "{EMNIST}: Extending {MNIST} to handwritten letters",
            "author": "Cohen, Gregory and Afshar, Saeed and Tapson, Jonathan and Van Schaik, Andr{\\'e}",
            "booktitle": "2017 International Joint Conference on Neural Networks (IJCNN)",
            "pages": "2921--2926",
            "publisher": "IEEE",
            "year": "2017",
        },
    ),
    "krizhevsky2009learning": (
        "techreport",
        {
            "title": "Learning Multiple Layers of Features from Tiny Images",
            "author": "Krizhevsky, Alex",
            "institution": "University of Toronto",
            "year": "2009",
        },
    ),
    "krizhevsky2012imagenet": (
        "inproceedings",
        {
            "title": "{ImageNet} Classification with Deep Convolutional Neural Networks",
            "author": "Krizhevsky, Alex and Sutskever, Ilya and Hinton, Geoffrey E.",
            "booktitle": "Advances in Neural Information Processing Systems",
            "volume": "25",
            "year": "2012",
        },
    ),
    "reisizadeh2020fedpaq": (
        "inproceedings",
        {
            "title": "{FedPAQ}: A Communication-Efficient Federated Learning Method with Periodic Averaging and "
            "Quantization",
            "author": "Reisizadeh, Amirhossein and Mokhtari, Aryan and Hassani, Hamed and Jadbabaie, Ali and "
            "Pedarsani, Ramtin",
            "booktitle": "International Conference on Artificial Intelligence and Statistics",
            "pages": "2021--2031",
            "year": "2020",
        },
    ),
    "alistarh2017qsgd": (
        "inproceedings",
        {
            "title": "{QSGD}: Communication-Efficient {SGD} via Gradient Quantization and Encoding",
            "author": "Alistarh, Dan and Grubic, Demjan and Li, Jerry and Tomioka, Ryota and Vojnovic, Milan",
            "booktitle": "Advances in Neural Information Processing Systems",
            "volume": "30",
            "year": "2017",
        },
    ),
    "wen2017terngrad": (
        "inproceedings",
        {
            "title": "{TernGrad}: Ternary Gradients to Reduce Communication in Distributed Deep Learning",
            "author": "Wen, Wei and Xu, Cong and Yan, Feng and Wu, Chunpeng and Wang, Yandan and Chen, Yiran and "
            "Li, Hai",
            "booktitle": "Advances in Neural Information Processing Systems",
            "volume": "30",
            "year": "2017",
        },
    ),
    "bernstein2018signsgd": (
        "inproceedings",
        {
            "title": "{signSGD}: Compressed Optimisation for Non-Convex Problems",
            "author": "Bernstein, Jeremy and Wang, Yu-Xiang and Azizzadenesheli, Kamyar and Anandkumar, Animashree",
            "booktitle": "International Conference on Machine Learning",
            "pages": "560--569",
            "year": "2018",
        },
    ),
    "karimireddy2019error": (
        "inproceedings",
        {
            "title": "Error Feedback Fixes {SignSGD} and other Gradient Compression Schemes",
            "author": "Karimireddy, Sai Praneeth and Rebjock, Quentin and Stich, Sebastian and Jaggi, Martin",
            "booktitle": "International Conference on Machine Learning",
            "pages": "3252--3261",
            "year": "2019",
        },
    ),
    "suresh2017distributed": (
        "inproceedings",
        {
            "title": "Distributed Mean Estimation with Limited Communication",
            "author": "Suresh, Ananda Theertha and Yu, Felix X. and Kumar, Sanjiv and McMahan, H. Brendan",
            "booktitle": "International Conference on Machine Learning",
            "pages": "3329--3337",
            "year": "2017",
        },
    ),
    "stich2018sparsified": (
        "inproceedings",
        {
            "title": "Sparsified {SGD} with Memory",
            "author": "Stich, Sebastian U. and Cordonnier, Jean-Baptiste and Jaggi, Martin",
            "booktitle": "Advances in Neural Information Processing Systems",
            "volume": "31",
            "year": "2018",
        },
    ),
    "abadi2016deep": (
        "inproceedings",
        {
            "title": "Deep Learning with Differential Privacy",
            "author": "Abadi, Martin and Chu, Andy and Goodfellow, Ian and McMahan, H. Brendan and Mironov, Ilya and "
            "Talwar, Kunal and Zhang, Li",
            "booktitle": "ACM Conference on Computer and Communications Security",
            "pages": "308--318",
            "year": "2016",
        },
    ),
    "mcmahan2018learning": (
        "inproceedings",
        {
            "title": "Learning Differentially Private Recurrent Language Models",
            "author": "McMahan, H. Brendan and Ramage, Daniel and Talwar, Kunal and Zhang, Li",
            "booktitle": "International Conference on Learning Representations",
            "year": "2018",
        },
    ),
    "andrew2021differentially": (
        "inproceedings",
        {
            "title": "Differentially Private Learning with Adaptive Clipping",
            "author": "Andrew, Galen and Thakkar, Om and McMahan, H. Brendan and Ramaswamy, Swaroop",
            "booktitle": "Advances in Neural Information Processing Systems",
            "volume": "34",
            "year": "2021",
        },
    ),
    "kairouz2021practical": (
        "inproceedings",
        {
            "title": "Practical and Private (Deep) Learning without Sampling or Shuffling",
            "author": "Kairouz, Peter and McMahan, Brendan and Song, Shuang and Thakkar, Om and "
            "Thakurta, Abhradeep and Xu, Zheng",
            "booktitle": "International Conference on Machine Learning",
            "publisher": "PMLR",
            "year": "2021",
        },
    ),
    "he2016deep": (
        "inproceedings",
        {
            "title": "Deep Residual Learning for Image Recognition",
            "author": "He, Kaiming and Zhang, Xiangyu and Ren, Shaoqing and Sun, Jian",
            "booktitle": "IEEE Conference on Computer Vision and Pattern Recognition",
            "pages": "770--778",
            "year": "2016",
        },
    ),
    "sandler2018mobilenetv2": (
        "inproceedings",
        {
            "title": "{MobileNetV2}: Inverted Residuals and Linear Bottlenecks",
            "author": "Sandler, Mark and Howard, Andrew and Zhu, Menglong and Zhmoginov, Andrey and Chen, Liang-Chieh",
            "booktitle": "IEEE Conference on Computer Vision and Pattern Recognition",
            "pages": "4510--4520",
            "year": "2018",
        },
    ),
    "wang2020tackling": (
        "inproceedings",
        {
            "title": "Tackling the Objective Inconsistency Problem in Heterogeneous Federated Optimization",
            "author": "Wang, Jianyu and Liu, Qinghua and Liang, Hao and Joshi, Gauri and Poor, H. Vincent",
            "booktitle": "Advances in Neural Information Processing Systems",
            "year": "2020",
        },
    ),
    "acar2021federated": (
        "inproceedings",
        {
            "title": "Federated Learning Based on Dynamic Regularization",
            "author": "Acar, Durmus Alp Emre and Zhao, Yue and Matas Navarro, Ramon and Mattina, Matthew and "
            "Whatmough, Paul N. and Saligrama, Venkatesh",
            "booktitle": "International Conference on Learning Representations",
            "year": "2021",
        },
    ),
    "li2021ditto": (
        "inproceedings",
        {
            "title": "Ditto: Fair and Robust Federated Learning Through Personalization",
            "author": "Li, Tian and Hu, Shengyuan and Beirami, Ahmad and Smith, Virginia",
            "booktitle": "International Conference on Machine Learning",
            "publisher": "PMLR",
            "year": "2021",
        },
    ),
    "arivazhagan2019federated": (
        "misc",
        {
            "title": "Federated Learning with Personalization Layers",
            "author": "Arivazhagan, Manoj Ghuhan and Aggarwal, Vinay and Singh, Aaditya Kumar and Choudhary, Sunav",
            "howpublished": "arXiv:1912.00818",
            "year": "2019",
        },
    ),
    "li2021fedbn": (
        "inproceedings",
        {
            "title": "{FedBN}: Federated Learning on Non-{IID} Features via Local Batch Normalization",
            "author": "Li, Xiaoxiao and Jiang, Meirui and Zhang, Xiaofei and Kamp, Michael and Dou, Qi",
            "booktitle": "International Conference on Learning Representations",
            "year": "2021",
        },
    ),
    "akiba2019optuna": (
        "inproceedings",
        {
            "title": "Optuna: A Next-generation Hyperparameter Optimization Framework",
            "author": "Akiba, Takuya and Sano, Shotaro and Yanase, Toshihiko and Ohta, Takeru and Koyama, Masanori",
            "booktitle": "ACM SIGKDD International Conference on Knowledge Discovery and Data Mining",
            "year": "2019",
        },
    ),
    "papernot2022hyperparameter": (
        "inproceedings",
        {
            "title": "Hyperparameter Tuning with {R\\'enyi} Differential Privacy",
            "author": "Papernot, Nicolas and Steinke, Thomas",
            "booktitle": "International Conference on Learning Representations",
            "year": "2022",
        },
    ),
    "yin2018byzantine": (
        "inproceedings",
        {
            "title": "Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates",
            "author": "Yin, Dong and Chen, Yudong and Ramchandran, Kannan and Bartlett, Peter",
            "booktitle": "International Conference on Machine Learning",
            "pages": "5650--5659",
            "publisher": "PMLR",
            "year": "2018",
        },
    ),
    "blanchard2017machine": (
        "inproceedings",
        {
            "title": "Machine Learning with Adversaries: {Byzantine} Tolerant Gradient Descent",
            "author": "Blanchard, Peva and El Mhamdi, El Mahdi and Guerraoui, Rachid and Stainer, Julien",
            "booktitle": "Advances in Neural Information Processing Systems",
            "volume": "30",
            "year": "2017",
        },
    ),
}
